/// Transposed convolutions by phases: taps and pixels against the definition, what is planned, what is not and why.

#include "plan/phases.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "passes/passes.hpp"
#include "problems.hpp"
#include "unisono/error.hpp"
#include "unisono/text.hpp"

namespace unisono::plan {
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
  return analyse(passes::run_pipeline(parse(text)), extents(contraction));
}

ConvPlan plan_of(const ConvTranspose2d& t, const char* text, const std::string& fixed = "") {
  return choose(as_convolution(t), epilogue_of(text, t), Device{}, Override::parse(fixed));
}

// (output pixel, input pixel, tap) along an axis, as kernels/unisono/tile/layout.cuh says, against the definition
TEST(Phases, TapsAreTheDefinitions) {
  using Triples = std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t>>;
  for (std::int64_t taps = 1; taps <= 7; ++taps)
    for (std::int64_t pad = 0; pad < 5; ++pad)
      for (const std::int64_t in : {1, 2, 5}) {
        const std::int64_t out = (in - 1) * 2 - 2 * pad + taps + 1;
        Triples expected, found;
        for (std::int64_t x = 0; x < in; ++x)
          for (std::int64_t f = 0; f < taps; ++f)
            if (const std::int64_t o = 2 * x - pad + f; o >= 0 && o < out) expected.emplace(o, x, f);
        const std::int64_t count = phase_taps(taps);
        for (std::int64_t phase = 0; phase < 2; ++phase)
          for (std::int64_t y = 0; y < phase_pixels(out); ++y)
            for (std::int64_t t = 0; t < count; ++t) {
              const std::int64_t x = y + (phase + pad) / 2 - count + 1 + t, o = 2 * y + phase;
              const std::int64_t f = (phase + pad) % 2 + 2 * (count - 1 - t);
              if (o < out && x >= 0 && x < in && f < taps) found.emplace(o, x, f);
            }
        EXPECT_EQ(found, expected) << taps << " taps, padding " << pad << ", " << in << " pixels";
      }
}

TEST(Phases, AConvolutionOfTheSmallImage) {
  const auto lowered = by_phases(transposed(3, 1, 1));
  ASSERT_TRUE(lowered);
  EXPECT_TRUE(lowered->phases);
  EXPECT_EQ(lowered->conv.r, 2);
  EXPECT_EQ(lowered->conv.stride, (std::array<std::int64_t, 2>{1, 1}));
  EXPECT_EQ(extents(lowered->contraction()).height, 18);
  EXPECT_EQ(extents(lowered->contraction()).width, 26);
}

TEST(Phases, TilesOfAllPhases) {
  const ConvPlan p = plan_of(transposed(3, 1), block_text, "tile=64x96 order=pingpong mode=resident cluster=1x1");
  EXPECT_TRUE(p.config.by_parity() && p.config.two_dimensional() && p.config.columns_b());
  EXPECT_EQ(p.config.halo()->halo_h, 1);
  EXPECT_EQ(p.patches_across, 2);  // of 13 pixels of a phase
  EXPECT_EQ(p.tiles_m, 4);         // 9 lines
  EXPECT_EQ(p.tiles_n, 4);
  EXPECT_EQ(p.tiles, 32);
  EXPECT_EQ(p.slots_per_image, 16);
  EXPECT_EQ(p.rows, 17 * 25);
  EXPECT_THAT(describe(p), HasSubstr(" by phases"));
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

TEST(Phases, WhatHasNone) {
  const auto refused = [](ConvTranspose2d t) { return beyond_phases(t); };
  ConvTranspose2d t = transposed(3, 1);
  EXPECT_EQ(refused(t), "");
  t.stride = {2, 3};
  EXPECT_THAT(refused(t), HasSubstr("stride 2x3"));
  t = transposed(3, 1), t.dilation = {2, 1};
  EXPECT_THAT(refused(t), HasSubstr("dilation 2x1"));
  t = transposed(3, 1), t.groups = 4;
  EXPECT_THAT(refused(t), HasSubstr("4 groups"));
  t = transposed(3, 1), t.layout = Layout::nchw;
  EXPECT_THAT(refused(t), HasSubstr("channels first"));
  t = transposed(3, 1), t.k = 91;
  EXPECT_THAT(refused(t), HasSubstr("91 output channels"));
  t = transposed(3, 1), t.dtype_x = t.dtype_w = DType::f32;
  EXPECT_THAT(refused(t), HasSubstr("f32; tf32 is multiplied with k side by side"));
  t = transposed(1, 0), t.w = 1;
  EXPECT_THAT(refused(t), HasSubstr("17x1 output pixels"));
}

// What is refused falls back to ordinary loads, and says why
TEST(Phases, TheReasonIsNamed) {
  ConvTranspose2d t = transposed(3, 1);
  t.stride = {3, 3};
  EXPECT_THAT(explain(as_convolution(t), epilogue_of(silu_text, t), Device{}),
              HasSubstr("a transposed convolution, not by phases: stride 3x3"));
  t = transposed(3, 1);
  const char* batch = "store batch_norm(acc, scale=gamma[n], shift=beta[n]) as y : bf16";
  const std::string text = explain(as_convolution(t), epilogue_of(batch, t), Device{});
  EXPECT_THAT(text, HasSubstr("ordinary loads"));
  EXPECT_THAT(text, HasSubstr("patches: statistics run over all images, and patches are an image's"));
  try {
    plan_of(t, silu_text, "load=runs");
    ADD_FAILURE() << "runs were served";
  } catch (const Unsupported& error) {
    EXPECT_THAT(error.what(), HasSubstr("runs: pixels of a run do not lie evenly in the output of a phase"));
  }
}

}  // namespace
}  // namespace unisono::plan
