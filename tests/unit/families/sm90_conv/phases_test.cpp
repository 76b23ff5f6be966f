// Transposed convolutions by the output-parity phases: what is planned, what is not and why.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "families/registry.hpp"
#include "support/says.hpp"
#include "unisono/error.hpp"
#include "unit/families/sm90_conv/problems.hpp"

namespace unisono::families::sm90_conv {
namespace {

using testing::HasSubstr;

constexpr const char* silu_text = "store silu(acc + bias[n]) as y : bf16";
constexpr const char* block_text =
    "store silu(group_norm(acc + bias[n], groups=4, scale=gamma[n], shift=beta[n])) as y : bf16";

ConvTranspose2d transposed(std::int64_t taps, std::int64_t pad, std::int64_t output_pad = 0) {
  return {.n = 2,
          .h = 9,
          .w = 13,
          .c = 64,
          .k = 96,
          .r = taps,
          .s = taps,
          .stride = {2, 2},
          .pad = {pad, pad, pad, pad},
          .output_pad = {output_pad, output_pad},
          .dtype_x = DType::bf16,
          .dtype_w = DType::bf16};
}

Epilogue epilogue_of(const char* text, const Contraction& contraction) {
  return analyse(passes::run_pipeline(parse(text)), extents(contraction), families::tile_limits()).value();
}

ConvPlan plan_of(const ConvTranspose2d& t, const char* text, const std::string& fixed = "") {
  return choose(as_convolution(t), epilogue_of(text, t), Device{}, parse_plan(fixed));
}

TEST(Phases, TilesOfAllPhases) {
  const ConvPlan p = plan_of(transposed(3, 1), block_text, "tile=64x96 order=pingpong mode=resident cluster=1x1");
  EXPECT_TRUE(p.config.by_parity() && p.config.two_dimensional() && p.config.columns_b());
  EXPECT_EQ(p.config.halo()->halo_h, 1);
  EXPECT_EQ(p.tiles_w, 2);  // of 13 pixels of a phase
  EXPECT_EQ(p.tiles_m, 4);  // 9 lines
  EXPECT_EQ(p.tiles_n, 4);
  EXPECT_EQ(p.tiles, 32);
  EXPECT_EQ(p.slots_per_image, 16);
  EXPECT_EQ(p.rows, 17 * 25);
  EXPECT_THAT(describe(p), HasSubstr(" by parity"));
  EXPECT_EQ(p.config.further_maps(), 6);
}

// Half of what is multiplied by the whole filter would be zeros
TEST(Phases, FasterThanWithout) {
  const ConvPlan by = plan_of(transposed(4, 1), silu_text),
                 without = plan_of(transposed(4, 1), silu_text, "load=gather");
  EXPECT_TRUE(by.config.by_parity());
  EXPECT_TRUE(without.config.gathered());
  EXPECT_LT(by.predicted_us, without.predicted_us);
}

// Phases of an odd number of taps differ in theirs; as many products as the convolution has whose gradient it is
TEST(Phases, TapsThatAPhaseDoesNotHaveCostLittle) {
  for (const std::int64_t taps : {1, 3}) {
    Conv2d forward = test::conv_of(16, 128, 128, 128, 256, taps);
    forward.stride = {2, 2};
    const ConvTranspose2d t = input_gradient(forward);
    const auto epilogue = epilogue_of(silu_text, forward);
    const ConvPlan there = choose(forward, epilogue, Device{}), back = plan_of(t, silu_text);
    EXPECT_TRUE(back.config.by_parity() && back.config.halo()->odd_h && back.config.halo()->odd_w);
    EXPECT_LT(back.predicted_us, 1.3 * there.predicted_us) << taps << " taps: " << describe(back);
    ConvTranspose2d even = t;
    even.r = even.s = taps + 1;
    EXPECT_FALSE(plan_of(even, silu_text).config.halo()->odd_h);
  }
}

// What is refused falls back to ordinary loads, and says why
TEST(Phases, TheReasonIsNamed) {
  ConvTranspose2d t = transposed(3, 1);
  t.stride = {3, 3};
  EXPECT_THAT(explain(as_convolution(t), epilogue_of(silu_text, t), Device{}),
              HasSubstr("a transposed convolution, not by parity phases: stride 3x3"));
  t = transposed(3, 1);
  const char* batch = "store batch_norm(acc, scale=gamma[n], shift=beta[n]) as y : bf16";
  const std::string text = explain(as_convolution(t), epilogue_of(batch, t), Device{});
  EXPECT_THAT(text, HasSubstr("ordinary loads"));
  EXPECT_THAT(text, Says("halo tiles: statistics … all images"));
  try {
    plan_of(t, silu_text, "load=im2col");
    ADD_FAILURE() << "runs were served";
  } catch (const Unsupported& error) {
    EXPECT_THAT(error.what(), Says("im2col tiles: … parity phase"));
  }
}

}  // namespace
}  // namespace unisono::families::sm90_conv
