#include "ir/extent_arithmetic.hpp"

#include <gmock/gmock.h>

#include "unisono/error.hpp"
#include "unisono/text.hpp"

namespace unisono::ir {
namespace {

std::string refusal(const std::string& text, const Contraction& contraction) {
  try {
    check_extent_arithmetic(parse("store " + text + " as y"), extents(contraction));
  } catch (const UserError& error) {
    return error.what();
  }
  return "none";
}

TEST(ExtentArithmetic, AProductThatWrapsIsRefused) {
  const std::string text = "sum(acc / (extent(m) * extent(m)))";
  EXPECT_EQ(refusal(text, Gemm{.m = 46340, .n = 1, .k = 1}), "none");
  const std::string said = refusal(text, Gemm{.m = 65536, .n = 1, .k = 1});
  EXPECT_THAT(said, testing::HasSubstr("mul(65536, 65536) is 4294967296, which i32 cannot hold"));
  EXPECT_THAT(said, testing::HasSubstr("cast(extent(m), f32)"));
}

TEST(ExtentArithmetic, FloatsAndUnknownIntegersAreFree) {
  const Gemm large{.m = 65536, .n = 65536, .k = 1};
  EXPECT_EQ(refusal("acc / (cast(extent(m), f32) * extent(m))", large), "none");
  EXPECT_EQ(refusal("acc + index(m) * extent(m)", large), "none");
  EXPECT_EQ(refusal("acc / extent(m) / extent(n)", large), "none");
  EXPECT_THAT(refusal("acc + square(extent(n) - 1) + extent(n)", large), testing::HasSubstr("square(65535)"));
  EXPECT_THAT(refusal("acc + fma(extent(m), extent(n), 1)", large), testing::HasSubstr("fma(65536, 65536, 1)"));
}

TEST(ExtentArithmetic, RowsOfAllImagesMayBeTooMany) {
  const Conv2d conv{.n = 1 << 16, .h = 1 << 8, .w = 1 << 8, .c = 1, .k = 1};
  EXPECT_THAT(refusal("acc / extent(m)", conv), testing::HasSubstr("an extent is 4294967296"));
  EXPECT_EQ(refusal("acc / extent(b)", conv), "none");
}

}  // namespace
}  // namespace unisono::ir
