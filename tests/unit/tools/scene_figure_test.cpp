#include "figure/scene_figure.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace unisono::figure {
namespace {

constexpr std::int64_t side = 48;

/// One scene of three classes with a right peak, a wrong one and an object that was missed.
SceneFigure sample(int scenes = 1) {
  SceneFigure figure{.title = "title",
                     .lines = {"one line", "another"},
                     .classes = {"cat", "dog", "cow"},
                     .threshold = 0.5,
                     .match_radius = 3,
                     .scenes = {}};
  for (int i = 0; i < scenes; ++i) {
    Scene scene{.name = "scene",
                .image = media::make_image(side, side, 3, 90),
                .heatmaps = std::vector<float>(3 * side * side, 0.0f),
                .rows = side,
                .columns = side,
                .marks = {},
                .caption = "1 of 2"};
    scene.heatmaps[0 * side * side + 12 * side + 12] = 1;
    scene.heatmaps[2 * side * side + 36 * side + 36] = 0.8f;
    scene.marks = {{Mark::Kind::truth, 12, 12, 0, 0},
                   {Mark::Kind::right, 12, 12, 0, 1},
                   {Mark::Kind::missed, 36, 12, 1, 0},
                   {Mark::Kind::wrong, 36, 36, 2, 0.8}};
    figure.scenes.push_back(scene);
  }
  return figure;
}

media::Image draw(const SceneFigure& figure) {
  return draw_scenes(figure, *stroke_font(Weight::regular), *stroke_font(Weight::bold));
}

/// Pixels of about this hue: the channel in question stands out.
std::int64_t count(const media::Image& image, Color color) {
  std::int64_t n = 0;
  for (std::size_t i = 0; i < image.pixels.size(); i += 3) {
    n += std::abs(image.pixels[i] - color.r) + std::abs(image.pixels[i + 1] - color.g) +
             std::abs(image.pixels[i + 2] - color.b) <
         12;
  }
  return n;
}

constexpr Color green{24, 160, 88}, red{222, 49, 60}, amber{255, 176, 32}, blue{62, 132, 246};

TEST(SceneFigure, IsTheSameEveryTime) { EXPECT_EQ(draw(sample(2)).pixels, draw(sample(2)).pixels); }

TEST(SceneFigure, MarksHaveTheirColours) {
  const media::Image all = draw(sample());
  EXPECT_GT(count(all, green), 100);
  EXPECT_GT(count(all, red), 100);
  EXPECT_GT(count(all, amber), 100);
  EXPECT_EQ(count(all, blue), 0);

  SceneFigure plain = sample();
  plain.scenes[0].marks = {{Mark::Kind::plain, 12, 12, 0, 1}};
  const media::Image image = draw(plain);
  EXPECT_GT(count(image, blue), 100);
  EXPECT_EQ(count(image, green), 0);
  EXPECT_LT(count(image, red) + 100, count(all, red));  // the colour bar has some red
}

TEST(SceneFigure, HeatmapsShowTheirMaximum) {
  SceneFigure figure = sample();
  figure.scenes[0].marks.clear();
  const std::int64_t bright = count(draw(figure), heat(0));
  for (float& value : figure.scenes[0].heatmaps) value = 1;
  EXPECT_GT(bright, 1000);
  EXPECT_GT(count(draw(figure), heat(1)), 3 * 100 * 100);
}

TEST(SceneFigure, GrowsByARowAScene) {
  const std::int64_t one = draw(sample(1)).height, two = draw(sample(2)).height, three = draw(sample(3)).height;
  EXPECT_EQ(three - two, two - one);
  EXPECT_GT(two - one, 438);
}

TEST(SceneFigure, OddShapesAndCounts) {
  for (const int classes : {1, 2, 3, 7, 30}) {
    SceneFigure figure = sample();
    figure.classes.assign(static_cast<std::size_t>(classes), "c");
    Scene& scene = figure.scenes[0];
    scene.image = media::make_image(300, 20, 3, 10);
    scene.rows = 5;
    scene.columns = 75;
    scene.heatmaps.assign(static_cast<std::size_t>(classes) * 5 * 75, 0.3f);
    scene.marks = {{Mark::Kind::wrong, 299, 19, classes - 1, 0.6}, {Mark::Kind::missed, 0, 0, 0, 0}};
    const media::Image image = draw(figure);
    EXPECT_GT(count(image, red), 20) << classes;
    EXPECT_GT(count(image, amber), 20) << classes;
  }
}

TEST(SceneFigure, NoScenesGiveTheHeaderAlone) {
  SceneFigure figure = sample(0);
  EXPECT_GT(draw(figure).height, 100);
}

}  // namespace
}  // namespace unisono::figure
