/// Transposed convolutions by phases: taps and pixels against the definition, what has none.

#include "families/sm90/phases.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "support/says.hpp"
#include "unisono/error.hpp"
#include "unisono/text.hpp"

namespace unisono::families::sm90 {
namespace {

using testing::HasSubstr;

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
              // VoidTaps of kernels/unisono/tile/tile_scheduler.cuh
              EXPECT_EQ(f >= taps, taps_differ(taps) && t == 0 && (phase + pad) % 2 == 1);
            }
        EXPECT_EQ(found, expected) << taps << " taps, padding " << pad << ", " << in << " pixels";
      }
}

TEST(Phases, AConvolutionOfTheSmallImage) {
  const auto lowered = by_phases(transposed(3, 1, 1));
  ASSERT_TRUE(lowered);
  EXPECT_TRUE(lowered->phases);
  EXPECT_EQ(lowered->conv.r, 2);
  EXPECT_EQ(lowered->conv.stride, Pair(1));
  EXPECT_EQ(extents(lowered->contraction()).height, 18);
  EXPECT_EQ(extents(lowered->contraction()).width, 26);
}

TEST(Phases, WhatHasNone) {
  const auto refused = [](ConvTranspose2d t) {
    const auto refusal = beyond_phases(t);
    return refusal ? refusal->text() : "";
  };
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
  EXPECT_THAT(refused(t), Says("f32; tf32 … k"));
  t = transposed(1, 0), t.w = 1;
  EXPECT_THAT(refused(t), HasSubstr("17x1 output pixels"));
}

}  // namespace
}  // namespace unisono::families::sm90
