#include "reference/resize.hpp"

#include <gmock/gmock.h>

#include <cmath>

#include "unisono/error.hpp"
#include "unit/reference/data.hpp"
#include "unit/reference/table.hpp"

namespace unisono::reference::test {
namespace {

using testing::ElementsAre;

Resize resize_of(const TableCase& c) {
  using enum CoordinateMode;
  static const std::map<std::string, CoordinateMode> coordinates{
      {"half_pixel", half_pixel},       {"half_pixel_symmetric", half_pixel_symmetric},
      {"align_corners", align_corners}, {"pytorch_half_pixel", pytorch_half_pixel},
      {"asymmetric", asymmetric},       {"tf_crop_and_resize", tf_crop_and_resize}};
  static const std::map<std::string, NearestMode> nearest{{"round_prefer_floor", NearestMode::round_prefer_floor},
                                                          {"round_prefer_ceil", NearestMode::round_prefer_ceil},
                                                          {"floor", NearestMode::floor},
                                                          {"ceil", NearestMode::ceil}};
  static const std::map<std::string, Resize::Mode> modes{
      {"nearest", Resize::Mode::nearest}, {"linear", Resize::Mode::linear}, {"cubic", Resize::Mode::cubic}};
  Resize r;
  r.mode = modes.at(c.text("mode"));
  r.coordinates = coordinates.at(c.text("coordinates"));
  if (c.has("nearest_mode")) r.nearest = nearest.at(c.text("nearest_mode"));
  if (c.has("cubic_coeff_a")) r.cubic_a = c.numbers("cubic_coeff_a")[0];
  r.exclude_outside = c.has("exclude_outside");
  for (std::size_t d = 0; d < 2; ++d) {
    r.size[d] = c.integer("out", d + 2);
    if (c.has("scale")) r.scale[d] = c.numbers("scale")[d];
  }
  if (c.has("roi")) std::copy_n(c.numbers("roi").begin(), 4, r.roi.begin());
  r.extrapolation_value = 99;
  r.layout = Layout::nchw;
  return r;
}

TEST(Resize, AgreesWithOnnxRuntime) {
  const auto cases = read_table("resize.txt");
  ASSERT_EQ(cases.size(), 205u);
  const auto x = pattern(20);
  for (const auto& c : cases) {
    SCOPED_TRACE(c.line);
    const Values y = resize(resize_of(c), view(x, {1, 1, 4, 5}));
    ASSERT_EQ(y.value.size(), c.output.size());
    for (std::size_t i = 0; i < c.output.size(); ++i)
      EXPECT_LE(std::abs(y.value[i] - c.output[i]), y.bound[i] + 1e-8 * std::abs(c.output[i])) << i;
  }
}

// By hand: one row 0, 1 to four pixels
TEST(Resize, OneRowByHand) {
  const std::vector<float> x{0, 1};
  Resize r{.size = {1, 4}};
  const auto row = [&] { return resize(r, view(x, {1, 1, 2, 1})).value; };
  EXPECT_THAT(row(), ElementsAre(0, 0, 1, 1));
  r.mode = Resize::Mode::linear;
  EXPECT_THAT(row(), ElementsAre(0, 0.25, 0.75, 1));
  r.coordinates = CoordinateMode::align_corners;
  EXPECT_THAT(row(), ElementsAre(0, testing::DoubleEq(1.0 / 3), testing::DoubleEq(2.0 / 3), 1));
  r.coordinates = CoordinateMode::asymmetric;
  EXPECT_THAT(row(), ElementsAre(0, 0.5, 1, 1));
}

TEST(Resize, CubicReproducesAStraightLineInside) {
  std::vector<float> x(12);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  const Resize r{.mode = Resize::Mode::cubic, .size = {1, 24}, .cubic_a = -0.5};
  const auto y = resize(r, view(x, {1, 1, 12, 1})).value;
  for (int i = 4; i < 20; ++i) EXPECT_NEAR(y[i], (i + 0.5) / 2 - 0.5, 1e-12) << i;
}

TEST(Resize, NearestIsExactAndKeepsChannelsTogether) {
  const auto x = pattern(2 * 2 * 3);
  const auto y = resize({.size = {2, 4}}, view(x, {1, 2, 2, 3}));
  ASSERT_EQ(y.value.size(), 24u);
  EXPECT_THAT(y.bound, testing::Each(0));
  for (std::size_t i = 0; i < 24; ++i) EXPECT_EQ(y.value[i], x[i / 12 * 6 + i % 12 / 6 * 3 + i % 3]) << i;
}

TEST(Resize, RefusesSizesAndScales) {
  const std::vector<float> x(4);
  EXPECT_THROW(resize({.size = {0, 1}}, view(x, {1, 2, 2, 1})), UserError);
  EXPECT_THROW(resize({.size = {1, 1}, .scale = {-1, 0}}, view(x, {1, 2, 2, 1})), UserError);
  EXPECT_THROW(resize({.size = {1, 1}, .scale = {NAN, 0}}, view(x, {1, 2, 2, 1})), UserError);
  EXPECT_THROW(resize({.size = {1, 1}}, view(x, {2, 2})), UserError);
}

}  // namespace
}  // namespace unisono::reference::test
