// Plans of dual products: their tiles' width is that of the result, and what is multiplied is twice as wide.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "families/registry.hpp"
#include "families/sm90_conv/shared_memory.hpp"
#include "support/says.hpp"
#include "unit/families/sm90_conv/problems.hpp"

namespace unisono::families::sm90_conv {
namespace {

using testing::HasSubstr;

constexpr const char* swiglu = "store silu(acc0) * acc1 as y : bf16";

Gemm product_of(std::int64_t m, std::int64_t n, std::int64_t k, bool transpose_b = true) {
  return {.m = m,
          .n = n,
          .k = k,
          .transpose_b = transpose_b,
          .dtype_a = DType::bf16,
          .dtype_b = DType::bf16,
          .products = 2};
}

std::vector<Answer> all(const Gemm& product, const char* text = swiglu, const char* fixed = "") {
  const ConvTask task = as_convolution(product);
  return candidates(task, test::epilogue_of(text, task.conv), Device{}, parse_plan(fixed));
}

std::string first_refusal(const Gemm& product, const char* text, const char* fixed) {
  for (const Answer& c : all(product, text, fixed))
    if (!c.refusal.empty()) return c.refusal;
  return "none";
}

TEST(DualProduct, TilesHaveTheResultsWidth) {
  const std::vector<Answer> list = all(product_of(4096, 4096, 4096));
  ASSERT_FALSE(list.empty());
  for (const Answer& c : list) {
    const ConvConfig& config = c.plan.config;
    EXPECT_EQ(config.operands.products, 2);
    if (!c.refusal.empty()) continue;
    EXPECT_LE(config.tile.n, 128);
    const int across = (4096 + config.tile.n - 1) / config.tile.n, cluster = config.schedule.cluster.n;
    EXPECT_EQ(c.plan.tiles_n, (across + cluster - 1) / cluster);
    EXPECT_FALSE(config.schedule.split || config.schedule.swap || config.schedule.stationary || config.halo());
    EXPECT_EQ(filter_stage_bytes(config), 2 * config.tile.n * config.tile.k * 2u);
    EXPECT_EQ(config.further_maps(), 1);
  }
}

// As the product of twice as many columns, whose result costs what is stored more
TEST(DualProduct, CostsWhatIsMultiplied) {
  for (const auto& [m, n, k] : {std::tuple{4096, 4096, 4096}, {8192, 11008, 4096}, {512, 4096, 4096}}) {
    const Gemm dual = product_of(m, n, k);
    Gemm wide = dual;
    wide.n *= 2, wide.products = 1;
    const ConvTask task = as_convolution(wide);
    const double of_wide =
        candidates(task, test::epilogue_of(test::bare, task.conv), Device{}).front().plan.predicted_us;
    const double of_dual = all(dual).front().plan.predicted_us;
    EXPECT_GT(of_dual, 0.9 * of_wide) << m;
    EXPECT_LT(of_dual, 1.1 * of_wide) << m;
  }
}

// A tile has 128 columns of either product; rows of more are several tiles' that wait for one another, as those of more
// than 256 columns of one product are
TEST(DualProduct, RowsWiderThanATileAreServed) {
  for (const char* text : {"store layer_norm(silu(acc0) * acc1) as y : bf16", "store softmax(acc0 - acc1, over=n) as y",
                           "store layer_norm(acc0 * acc1) as y; store acc0 as gate; store acc1 as up : bf16"})
    for (const int n : {128, 136, 256, 264})
      for (const bool transpose_b : {true, false}) {
        const std::vector<Answer> list = all(product_of(256, n, 64, transpose_b), text);
        EXPECT_TRUE(std::ranges::any_of(list, [](const Answer& c) { return c.refusal.empty(); })) << text << ' ' << n;
      }
}

TEST(DualProduct, RefusesWithReasons) {
  const Gemm product = product_of(512, 512, 512);
  EXPECT_THAT(first_refusal(product, swiglu, "tile=128x160"), Says("160 columns … two products"));
  EXPECT_THAT(first_refusal(product, swiglu, "tile=128x64 split=on"), HasSubstr("two products: split-K"));
  EXPECT_THAT(first_refusal(product, swiglu, "tile=128x64 swap=on"), HasSubstr("two products: swapped operands"));
  EXPECT_THAT(first_refusal(product_of(512, 512, 512, false), swiglu, "tile=128x64 load=halo"),
              HasSubstr("two products: halo tiles"));
  EXPECT_THAT(first_refusal(product_of(512, 512, 512, false), swiglu, "tile=128x72"),
              HasSubstr("72 columns of B (k, n) a tile; boxes have 64"));
  EXPECT_THAT(first_refusal(product_of(512, 512, 513), swiglu, ""), HasSubstr("two products: gathered operands"));
}

Conv2d gated_convolution() {
  return {.n = 4,
          .h = 32,
          .w = 32,
          .c = 128,
          .k = 256,
          .r = 3,
          .s = 3,
          .pad = 1,
          .dtype_x = DType::bf16,
          .dtype_w = DType::bf16,
          .products = 2};
}

// By halo tiles, im2col tiles and boxes of rows; two filters are as many channels to multiply
TEST(DualConvolution, IsServedByEveryLoadOfTma) {
  const Conv2d conv = gated_convolution();
  Conv2d wide = conv, one_tap = conv;
  wide.k *= 2, wide.products = 1;
  one_tap.r = one_tap.s = 1, one_tap.pad = 0;
  EXPECT_EQ(as_convolution(conv).products, 2);
  EXPECT_EQ(as_convolution(conv).conv.products, 1) << "counted once";
  for (const Conv2d& c : {conv, one_tap})
    for (const char* load : {"load=halo", "load=im2col"})
      for (const char* text : {swiglu, "store silu(group_norm(acc0 * acc1, groups=32)) as y : bf16"}) {
        const ConvTask task = as_convolution(c);
        const ConvPlan plan = choose(task, test::epilogue_of(text, task.conv), Device{}, parse_plan(load));
        EXPECT_EQ(plan.config.operands.products, 2);
        EXPECT_LE(plan.config.tile.n, 128);
        EXPECT_EQ(plan.config.further_maps() - plan.config.features.fetch.value_or(0), 1);
      }
  const ConvTask task = as_convolution(conv), of_wide = as_convolution(wide);
  const double us = choose(task, test::epilogue_of(swiglu, task.conv), Device{}).predicted_us,
               wide_us = choose(of_wide, test::epilogue_of(test::bare, of_wide.conv), Device{}).predicted_us;
  EXPECT_GT(us, 0.85 * wide_us);
  EXPECT_LT(us, 1.15 * wide_us);
}

TEST(DualConvolution, RefusesWithReasons) {
  const auto first = [](const Conv2d& c, const char* fixed) {
    const ConvTask task = as_convolution(c);
    const auto found = families::choose({task, test::epilogue_of(swiglu, task.conv), Device{}},
                                        parse_plan(std::string("family=") + fixed));
    return found ? std::string("none") : found.refusal().text();
  };
  Conv2d grouped = gated_convolution(), planes = gated_convolution(), odd = gated_convolution(), depthwise = odd;
  grouped.groups = 4, planes.layout = Layout::nchw, odd.c = 127;
  depthwise.groups = depthwise.c = depthwise.k = 64;
  EXPECT_THAT(first(grouped, "sm90_conv"), HasSubstr("two filters of 4 groups"));
  EXPECT_THAT(first(planes, "sm90_conv"), HasSubstr("two filters of images NCHW"));
  EXPECT_THAT(first(odd, "sm90_conv"), HasSubstr("two products: gathered operands"));
  EXPECT_THAT(first(depthwise, "sm90_depthwise"), HasSubstr("two filters of 64 groups"));
  EXPECT_THAT(first(gated_convolution(), "cutlass_evt"), HasSubstr("convolution with two filters"));
  for (const Conv2d& c : {grouped, planes, odd, depthwise}) EXPECT_EQ(first(c, "plain"), "none");
}

// What TMA does not load, family `mma` does, and on older GPUs `plain`
TEST(DualProduct, IsServedWithoutTma) {
  Device turing;
  turing.major = 7, turing.minor = 5;
  for (const char* text : {swiglu, "store batch_norm(acc0 * acc1) as y : bf16"}) {
    const ConvTask task = as_convolution(product_of(512, 512, 513));
    const auto epilogue = test::epilogue_of(text, task.conv);
    EXPECT_EQ(families::choose({task, epilogue, Device{}}).value()->family->name(), "mma") << text;
    EXPECT_EQ(families::choose({task, epilogue, turing}).value()->family->name(), "plain") << text;
  }
}

TEST(DualProduct, SaysSo) {
  const ConvTask task = as_convolution(product_of(4096, 4096, 4096));
  const std::string text =
      explain(task, test::epilogue_of(swiglu, task.conv), Device{}, parse_plan("tile=256x64 order=cooperative"));
  EXPECT_THAT(text, HasSubstr(" dual"));
  EXPECT_THAT(
      text,
      Says("products: two of the same A; 64 columns of either B side … stage, one matrix instruction of 128 for both"));
}

}  // namespace
}  // namespace unisono::families::sm90_conv
