/// Transposed convolutions of stride 1 by flipped taps: taps and pixels against the definition, what has none.

#include "families/sm90/flipped.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "support/says.hpp"
#include "unisono/error.hpp"

namespace unisono::families::sm90 {
namespace {

using testing::HasSubstr;

ConvTranspose2d gradient_of_3x3() {
  return {.n = 2,
          .h = 9,
          .w = 13,
          .c = 64,
          .k = 96,
          .r = 3,
          .s = 3,
          .pad = 1,
          .dtype_x = DType::bf16,
          .dtype_w = DType::bf16};
}

// (output pixel, input pixel, tap) along an axis, as the kernel goes, against the definition
TEST(Flipped, TapsAreTheDefinitions) {
  using Triples = std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t>>;
  for (std::int64_t taps = 1; taps <= 5; ++taps)
    for (std::int64_t pad = 0; pad < 7; ++pad)
      for (const std::int64_t dilation : {1, 2, 3})
        for (std::int64_t more = 0; more < dilation; ++more)
          for (const std::int64_t in : {1, 2, 9}) {
            ConvTranspose2d t = gradient_of_3x3();
            t.h = in, t.r = taps, t.dilation = {dilation, 1}, t.output_pad = {more, 0};
            t.pad = {pad, 1, 1, 1};
            const std::int64_t out = in - 1 - pad - 1 + dilation * (taps - 1) + more + 1;
            if (out < 1) continue;
            const auto task = by_flipped_taps(t);
            ASSERT_TRUE(task);
            EXPECT_EQ(extents(task->contraction()).height, out);
            const Conv2d& c = task->conv;
            EXPECT_EQ(c.h + c.pad.top + c.pad.bottom - dilation * (taps - 1), out);
            Triples expected, found;
            for (std::int64_t x = 0; x < in; ++x)
              for (std::int64_t f = 0; f < taps; ++f)
                if (const std::int64_t o = x - pad + f * dilation; o >= 0 && o < out) expected.emplace(o, x, f);
            for (std::int64_t o = 0; o < out; ++o)
              for (std::int64_t f = 0; f < taps; ++f)
                if (const std::int64_t x = o + f * dilation - c.pad.top; x >= 0 && x < in)
                  found.emplace(o, x, taps - 1 - f);
            EXPECT_EQ(found, expected) << taps << " taps, padding " << pad << ", " << in << " pixels";
          }
}

TEST(Flipped, AConvolutionWithTheRestOfTheReachAsPadding) {
  ConvTranspose2d t = gradient_of_3x3();
  t.pad = {0, 1, 3, 2}, t.dilation = {2, 1}, t.output_pad = {1, 0};
  const auto task = by_flipped_taps(t);
  ASSERT_TRUE(task);
  EXPECT_TRUE(task->flipped && !task->phases);
  EXPECT_EQ(task->conv.pad, Margins(4, 1, 2, 0));
  EXPECT_EQ(task->conv.dilation, Pair(2, 1));
  EXPECT_EQ(task->contraction().index(), Contraction(t).index());
  t = gradient_of_3x3(), t.r = t.s = 1, t.pad = {1, 2, 1, 0};
  EXPECT_EQ(by_flipped_taps(t)->conv.pad, Margins(-1, -2, -1, 0));
}

TEST(Flipped, WhatHasNone) {
  const auto refused = [](const ConvTranspose2d& t) {
    const auto refusal = beyond_flipped(t);
    EXPECT_EQ(by_flipped_taps(t).has_value(), !refusal);
    return refusal ? refusal->text() : "";
  };
  ConvTranspose2d t = gradient_of_3x3();
  EXPECT_EQ(refused(t), "");
  t.stride = {1, 2};
  EXPECT_THAT(refused(t), HasSubstr("stride 1x2"));
  t = gradient_of_3x3(), t.groups = 4;
  EXPECT_THAT(refused(t), HasSubstr("4 groups"));
  t = gradient_of_3x3(), t.layout = Layout::nchw;
  EXPECT_THAT(refused(t), HasSubstr("channels first"));
  t = gradient_of_3x3(), t.c = 91;
  EXPECT_THAT(refused(t), HasSubstr("91 input and 96 output channels"));
  t = gradient_of_3x3(), t.dtype_x = t.dtype_w = DType::f32;
  EXPECT_THAT(refused(t), Says("f32; tf32 … k"));
  t = gradient_of_3x3(), t.h = 400, t.dilation = {150, 1};  // neither a halo tile nor im2col loads
  EXPECT_THAT(refused(t), HasSubstr("taps 300 apart along the height"));
}

}  // namespace
}  // namespace unisono::families::sm90
