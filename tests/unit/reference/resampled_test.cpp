// What stores make of an image: pooled by 2x2, or upsampled.

#include "reference/resampled.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "unisono/text.hpp"

namespace unisono::reference::test {
namespace {

using testing::ElementsAre;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

TEST(Resampled, TheLargestOfFourWithTheLargestBound) {
  const Extents e{.images = 1, .height = 3, .width = 5, .cols = 1};
  const Values image{.axes = axes::mn,
                     .value = {1, 2, 3, nan, 9, 4, 0, -1, 2, 9, 9, 9, 9, 9, 9},
                     .bound = {.1, .2, .3, .4, 9, .5, .6, .7, .8, 9, 9, 9, 9, 9, 9}};
  const Values pooled = resampled(image, StoreForm::max_pool_2x2, e);
  ASSERT_EQ(pooled.value.size(), 2u);
  EXPECT_EQ(pooled.value[0], 4);
  EXPECT_TRUE(std::isnan(pooled.value[1]));
  EXPECT_THAT(pooled.bound, ElementsAre(.6, .8));
  EXPECT_EQ(resampled(image, StoreForm::whole, e).value.size(), 15u);
}

TEST(Resampled, EachPixelFourTimes) {
  const Extents e{.images = 2, .height = 1, .width = 2, .cols = 2};
  const Values image{.axes = axes::mn, .value = {1, 2, 3, 4, 5, 6, 7, 8}, .bound = {}};
  EXPECT_THAT(
      resampled(image, StoreForm::upsample_2x2, e).value,
      ElementsAre(1, 2, 1, 2, 3, 4, 3, 4, 1, 2, 1, 2, 3, 4, 3, 4, 5, 6, 5, 6, 7, 8, 7, 8, 5, 6, 5, 6, 7, 8, 7, 8));
}

TEST(Resampled, OfPixelsThatLieApart) {
  const float image[] = {1, 2, -9, 3, 4, -9, 5, 6, -9, 7, 8, -9};
  const float upsampled[] = {1, 2, 1, 2, 3, 4, 3, 4, 1, 2, 1, 2, 3, 4, 3, 4,
                             5, 6, 5, 6, 7, 8, 7, 8, 5, 6, 5, 6, 7, 8, 7, 8};
  const float pooled[] = {7, 8}, wrong[] = {7, -9};
  const ConstTensorView x{image, DType::f32, {1, 2, 2, 2}, {12, 6, 3, 1}};
  EXPECT_EQ(first_other(x, {upsampled, DType::f32, {1, 4, 4, 2}, {}}), std::nullopt);
  EXPECT_EQ(first_other(x, {pooled, DType::f32, {1, 1, 1, 2}, {}}), std::nullopt);
  EXPECT_EQ(first_other(x, {wrong, DType::f32, {1, 1, 1, 2}, {}}), 1);
}

TEST(Resampled, EvaluatedAndComparedInBothLayouts) {
  const Graph g = parse("y = acc * 2\nstore y\nstore max_pool_2x2(y) as p");
  const Values acc{.axes = axes::mn, .value = {1, -1, 2, -2, 3, -3, 4, -4}, .bound = std::vector<double>(8)};
  for (const Layout layout : {Layout::nhwc, Layout::nchw}) {
    const Conv2d conv{.h = 2, .w = 2, .c = 1, .k = 2, .layout = layout};
    const auto all = evaluate(g, conv, acc, {});
    EXPECT_THAT(all.at("p").value, ElementsAre(8, -2));
    float right[] = {8, -2}, wrong[] = {8, -4};
    const auto shape = shape_of(g, g.stores[1], conv);
    EXPECT_TRUE(compare(all.at("p"), g.stores[1], conv, {right, DType::f32, shape, {}}).ok());
    EXPECT_EQ(compare(all.at("p"), g.stores[1], conv, {wrong, DType::f32, shape, {}}).outside, 1);
  }
}

}  // namespace
}  // namespace unisono::reference::test
