// A second product of the main store: what is refused.

#include "plan/head.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/analyse.hpp"
#include "plan/resampling.hpp"
#include "problems.hpp"
#include "unisono/error.hpp"

namespace unisono::plan {
namespace {

using testing::HasSubstr;

WantedHead heatmaps(std::int64_t channels = 17, bool only = true,
                    const std::string& text = "store acc + hbias[n] as heat : bf16") {
  return {.head = {.channels = channels, .filter = "hfilter", .graph = parse(text)}, .only = only};
}

Epilogue with_head(const std::string& text, const Contraction& contraction, const WantedHead& head) {
  Epilogue e = analyse(passes::run_pipeline(parse(text)), extents(contraction), {.channels = 256}).value();
  test::require(add_head(e, head, contraction));
  return e;
}

std::string refusal(const std::string& text, const Contraction& contraction, const WantedHead& head) {
  try {
    with_head(text, contraction, head);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(HeadPlan, Refused) {
  const Conv2d conv = test::conv_of(2, 32, 32, 64, 64, 3);
  EXPECT_EQ(refusal(test::bare, conv, heatmaps()), "no error");
  EXPECT_THAT(refusal("store acc as y : f32", conv, heatmaps()), HasSubstr("no result [m,n] of 16 bits"));
  Gemm batched{.batch = 2, .m = 64, .n = 64, .k = 64};
  batched.dtype_a = batched.dtype_b = DType::bf16;
  EXPECT_THAT(refusal(test::bare, batched, heatmaps()), HasSubstr("head: 2 products in one"));
}

TEST(HeadPlan, RefusedForItsGraph) {
  const Conv2d conv = test::conv_of(2, 32, 32, 64, 64, 3);
  const auto of = [&](const char* head) { return refusal(test::bias_silu, conv, heatmaps(16, true, head)); };
  EXPECT_THAT(of("store acc + other[m,n] as heat : bf16"), HasSubstr("reads 'other' with axes [m,n]"));
  EXPECT_THAT(of("store group_norm(acc, groups=4) as heat : bf16"), HasSubstr("head: its graph normalises"));
  EXPECT_THAT(of("store acc as heat : f32"), HasSubstr("stores something else than 16 bits"));
  EXPECT_THAT(of("store acc + index(h) as heat : bf16"), HasSubstr("head: its graph"));
  EXPECT_THAT(of("store acc as heat : bf16\nstore 2 * acc as twice : bf16"), HasSubstr("has 2 stores"));
  std::string many = "store acc";
  for (int i = 0; i < 12; ++i) many += " + c" + std::to_string(i) + "[n] * acc";
  EXPECT_EQ(of((many + " as heat : bf16").c_str()), "no error");  // as many as the kernel's parameter has room for
}

// Tiles of a head with values [b,n] are an image's, and statistics over all images were taken of each alone
TEST(HeadPlan, RefusedForValuesOfImagesBesideStatisticsOverAll) {
  const char* const over_all = "store (acc - mean(acc, over=all, groups=4)) * 2 as y : f16";
  const auto of = [&](const char* text, const char* head, int images) {
    return refusal(text, test::conv_of(images, 32, 32, 64, 64, 3), heatmaps(16, true, head));
  };
  const char* const of_images = "store acc + htime[b,n] as heat : bf16";
  EXPECT_THAT(of(over_all, of_images, 2), HasSubstr("head: it reads values [b,n] of each image"));
  EXPECT_EQ(of(over_all, of_images, 1), "no error");
  EXPECT_EQ(of(over_all, "store acc + hbias[n] as heat : bf16", 2), "no error");
  EXPECT_EQ(of("store group_norm(acc, groups=4) as y : f16", of_images, 2), "no error");
}

TEST(HeadPlan, OfTheMainStoreOnly) {
  const Conv2d conv = test::conv_of(2, 32, 32, 64, 64, 3);
  WantedHead of_another = heatmaps();
  of_another.source = "h";
  EXPECT_THAT(refusal(test::bare, conv, of_another),
              HasSubstr("head: the kernel writes 'y' last, and 'heat' is a head of another store"));
  of_another.source = "y";
  EXPECT_EQ(refusal(test::bare, conv, of_another), "no error");
}

TEST(HeadPlan, RefusedBesideResampledStores) {
  const Conv2d conv = test::conv_of(2, 32, 32, 64, 64, 3);
  Epilogue e = test::epilogue_of(test::bare, conv);
  test::require(resample(e, {.pooled = "p"}, conv));
  const auto refusal = add_head(e, heatmaps(), conv);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->text(), "head: the store is pooled or upsampled too; one of them by one kernel");
  EXPECT_EQ(e.head, nullptr);
}

}  // namespace
}  // namespace unisono::plan
