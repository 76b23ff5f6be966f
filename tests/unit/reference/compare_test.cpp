#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "support/float_convert.hpp"
#include "unisono/error.hpp"
#include "unit/reference/data.hpp"

namespace unisono::reference::test {
namespace {

const float inf = std::numeric_limits<float>::infinity();
const float nan = std::numeric_limits<float>::quiet_NaN();
const Gemm column{.m = 1, .n = 1, .k = 1};

// One expected value with its bound against one stored value
Agreement one(double expected, double bound, double actual, DType dtype) {
  alignas(8) unsigned char memory[8] = {};
  support::store(memory, 0, dtype, actual);
  return compare({axes::scalar, {expected}, {bound}}, column, {memory, dtype, {}, {}});
}
bool agrees(double expected, double bound, double actual, DType dtype) {
  return one(expected, bound, actual, dtype).ok();
}

TEST(Compare, AllowsTheBoundAndTheRoundingOfTheStore) {
  EXPECT_TRUE(agrees(1, 0, 1, DType::f32));
  EXPECT_FALSE(agrees(1, 0, 1 + 0x1p-23, DType::f32));
  EXPECT_TRUE(agrees(1, 0x1p-23, 1 + 0x1p-23, DType::f32));
  EXPECT_TRUE(agrees(1 + 0x1p-9, 0, 1, DType::bf16));  // rounds down to even
  EXPECT_FALSE(agrees(1 + 0x1p-9, 0, 1 + 0x1p-7, DType::bf16));
  EXPECT_TRUE(agrees(1 + 0x1p-8, 1e-6, 1 + 0x1p-7, DType::bf16));  // a tie that the bound unties
  EXPECT_FALSE(agrees(1, 1e-3, 1 + 0x1p-7, DType::bf16));
  EXPECT_TRUE(agrees(0.1, 0, 0.1f, DType::f32));
  EXPECT_FALSE(agrees(0.1, 0, std::nextafter(0.1f, 1.f), DType::f32));
}

TEST(Compare, NaNAndInfinity) {
  EXPECT_TRUE(agrees(NAN, 0, nan, DType::f32));
  EXPECT_FALSE(agrees(NAN, 0, 1, DType::f32));
  EXPECT_FALSE(agrees(1, 1e30, nan, DType::f32));
  EXPECT_TRUE(agrees(INFINITY, 0, inf, DType::bf16));
  EXPECT_FALSE(agrees(INFINITY, 0, -inf, DType::bf16));
  EXPECT_FALSE(agrees(INFINITY, 0, 3e38, DType::f32));
  EXPECT_FALSE(agrees(1, 1e30, inf, DType::f32));
  // beyond the largest number of the stored dtype
  EXPECT_TRUE(agrees(70000, 0, inf, DType::f16));
  EXPECT_FALSE(agrees(70000, 0, 65504, DType::f16));
  EXPECT_TRUE(agrees(65530, 100, 65504, DType::f16));
  EXPECT_TRUE(agrees(65530, 100, inf, DType::f16));
}

TEST(Compare, AnInfiniteBoundClaimsNothingAndIsCounted) {
  for (const float actual : {0.f, nan, -inf}) {
    const Agreement a = one(1, INFINITY, actual, DType::f32);
    EXPECT_TRUE(a.ok());
    EXPECT_EQ(a.unclaimed, 1);
  }
  EXPECT_EQ(one(1, 0, 1, DType::f32).unclaimed, 0);
}

TEST(Compare, IntegersAndBools) {
  EXPECT_TRUE(agrees(2.7, 0, 2, DType::i32));
  EXPECT_FALSE(agrees(2.7, 0, 3, DType::i32));
  EXPECT_TRUE(agrees(2.9999, 1e-3, 3, DType::i32));
  EXPECT_TRUE(agrees(NAN, 0, 0, DType::i32));
  EXPECT_TRUE(agrees(0.5, 0.1, 1, DType::boolean));
  EXPECT_FALSE(agrees(0.5, 0.1, 0, DType::boolean));
  EXPECT_TRUE(agrees(0.5, 0.6, 0, DType::boolean));
  EXPECT_TRUE(agrees(0, 0.1, 1, DType::boolean));
  EXPECT_FALSE(agrees(0, 0, 1, DType::boolean));
}

TEST(Compare, FindsTheWorstElementInAnyLayout) {
  const Conv2d c{.n = 1, .h = 2, .w = 2, .c = 1, .k = 3, .layout = Layout::nchw};
  Values expected{axes::mn, std::vector<double>(12), std::vector<double>(12, 1e-3)};
  std::vector<float> nchw(12);
  for (int p = 0; p < 4; ++p)
    for (int k = 0; k < 3; ++k) {
      expected.value[p * 3 + k] = 10 * p + k;
      nchw[k * 4 + p] = static_cast<float>(10 * p + k);
    }
  EXPECT_TRUE(compare(expected, c, view(nchw, {1, 3, 2, 2})).ok());
  nchw[1 * 4 + 2] += 0.01f;
  nchw[2 * 4 + 3] += 0.5f;
  const Agreement a = compare(expected, c, view(nchw, {1, 3, 2, 2}));
  EXPECT_EQ(a.elements, 12);
  EXPECT_EQ(a.outside, 2);
  EXPECT_EQ(a.worst_index, 11);
  EXPECT_EQ(a.worst_expected, 32);
  EXPECT_EQ(a.worst_actual, 32.5);
  EXPECT_EQ(a.largest_error, 0.5);
  EXPECT_NEAR(a.worst, 500, 1);
}

TEST(Compare, RefusesAnotherShape) {
  const std::vector<float> x(4);
  EXPECT_THROW(compare({axes::n, std::vector<double>(4), {}}, Gemm{.m = 2, .n = 4, .k = 1}, view(x, {2, 2})),
               UserError);
  EXPECT_THROW(compare({axes::n, std::vector<double>(3), {}}, Gemm{.m = 2, .n = 4, .k = 1}, view(x, {4})), UserError);
}

TEST(ShapeOf, EveryAxes) {
  using testing::ElementsAre;
  const Conv2d c{.n = 2, .h = 4, .w = 5, .c = 1, .k = 6};
  EXPECT_THAT(shape_of(axes::scalar, c), ElementsAre());
  EXPECT_THAT(shape_of(axes::b, c), ElementsAre(2));
  EXPECT_THAT(shape_of(axes::m, c), ElementsAre(40));
  EXPECT_THAT(shape_of(axes::n, c), ElementsAre(6));
  EXPECT_THAT(shape_of(axes::bn, c), ElementsAre(2, 6));
  EXPECT_THAT(shape_of({RowAxis::b, ColAxis::g, 3}, c), ElementsAre(2, 3));
  EXPECT_THAT(shape_of({RowAxis::m, ColAxis::g, 3}, c), ElementsAre(40, 3));
  EXPECT_THAT(shape_of(axes::mn, c), ElementsAre(2, 4, 5, 6));
}

TEST(Stored, RoundsValuesAndBounds) {
  const Values v = stored({axes::n, {1 + 0x1p-9, 3.3, 1}, {0, 0, 0x1p-7}}, DType::bf16);
  EXPECT_EQ(v.value[0], 1);
  EXPECT_EQ(v.bound[0], 0);
  EXPECT_EQ(v.value[1], 3.296875);
  EXPECT_EQ(v.bound[2], 0x1p-7);
}

}  // namespace
}  // namespace unisono::reference::test
