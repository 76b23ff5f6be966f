// What is made of the main store: what is refused.

#include "plan/resampling.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/analyse.hpp"
#include "problems.hpp"
#include "support/says.hpp"
#include "unisono/error.hpp"

namespace unisono::plan {
namespace {

using testing::HasSubstr;

std::string refusal(const char* text, const Resampled& wanted, const Contraction& contraction) {
  try {
    Epilogue e = analyse(passes::run_pipeline(parse(text)), extents(contraction), {.channels = 256}).value();
    test::require(resample(e, wanted, contraction));
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Resampling, Refused) {
  const Conv2d conv = test::conv_of(2, 32, 32, 64, 64, 3);
  const Gemm product{.m = 64, .n = 64, .k = 64, .dtype_a = DType::bf16, .dtype_b = DType::bf16};
  EXPECT_THAT(refusal(test::bare, {.pooled = "p"}, product), HasSubstr("has no image"));
  EXPECT_THAT(refusal("store acc as y : f32", {.upsampled = "e"}, conv), Says("store: … 16 … result [m,n]"));
  EXPECT_THAT(refusal(test::bare, {.upsampled = "e", .source = "h"}, conv),
              Says("writes 'y' last, and 'e' … another store"));
  EXPECT_EQ(refusal(test::bare, {.pooled = "p", .upsampled = "e", .source = "y"}, conv), "no error");
}

}  // namespace
}  // namespace unisono::plan
