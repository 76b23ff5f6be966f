#include "figure/resample.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace unisono::figure {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::Pointwise;

std::vector<float> random_plane(std::size_t count) {
  std::mt19937 random(3);
  std::vector<float> values(count);
  for (float& v : values) v = static_cast<float>(random() % 1000) / 1000.0f;
  return values;
}

TEST(Resample, SameSizeIsTheSame) {
  const auto values = random_plane(7 * 5 * 2);
  for (const Filter filter : {Filter::nearest, Filter::smooth})
    EXPECT_EQ(resample(values, 7, 5, 2, 7, 5, filter), values);
}

TEST(Resample, ConstantsStayConstant) {
  const std::vector<float> values(9 * 4, 0.75f);
  for (const auto& [w, h] : {std::pair{1, 1}, {3, 11}, {40, 2}, {9, 1}}) {
    EXPECT_THAT(resample(values, 9, 4, 1, w, h, Filter::smooth), testing::Each(FloatNear(0.75f, 1e-6f)));
  }
}

TEST(Resample, NearestRepeatsPixels) {
  EXPECT_THAT(resample(std::vector<float>{1, 2}, 2, 1, 1, 6, 1, Filter::nearest), ElementsAre(1, 1, 1, 2, 2, 2));
  EXPECT_THAT(resample(std::vector<float>{1, 2, 3, 4, 5, 6}, 6, 1, 1, 2, 1, Filter::nearest), ElementsAre(2, 5));
}

TEST(Resample, SmoothUpsamplesLinearly) {
  // centres of the four are at -0.25, 0.25, 0.75, 1.25 of the input
  EXPECT_THAT(resample(std::vector<float>{0, 1}, 2, 1, 1, 4, 1, Filter::smooth),
              Pointwise(FloatNear(1e-6f), {0.0f, 0.25f, 0.75f, 1.0f}));
  EXPECT_THAT(resample(std::vector<float>{0, 1}, 1, 2, 1, 1, 4, Filter::smooth),
              Pointwise(FloatNear(1e-6f), {0.0f, 0.25f, 0.75f, 1.0f}));
}

TEST(Resample, ShrinkingUsesEveryPixel) {
  // a single bright pixel must not vanish, whatever its place
  for (std::size_t i = 0; i < 64; ++i) {
    std::vector<float> values(64, 0.0f);
    values[i] = 1;
    const auto small = resample(values, 8, 8, 1, 3, 3, Filter::smooth);
    EXPECT_NEAR(std::accumulate(small.begin(), small.end(), 0.0f), 9.0f / 64, 0.06f) << i;
  }
}

TEST(Resample, ChannelsDoNotMix) {
  std::vector<float> values;
  for (int i = 0; i < 12; ++i) values.insert(values.end(), {static_cast<float>(i), 5.0f});
  const auto out = resample(values, 4, 3, 2, 9, 7, Filter::smooth);
  for (std::size_t i = 0; i < out.size(); i += 2) {
    EXPECT_NEAR(out[i + 1], 5, 1e-5);
    EXPECT_GE(out[i], -1e-5f);
    EXPECT_LE(out[i], 11 + 1e-5f);
  }
}

TEST(Resample, ImagesAreRounded) {
  const media::Image image{2, 1, 1, {0, 255}};
  EXPECT_THAT(resample(image, 4, 1, Filter::smooth).pixels, ElementsAre(0, 64, 191, 255));
}

}  // namespace
}  // namespace unisono::figure
