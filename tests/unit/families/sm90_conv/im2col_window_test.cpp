// Images of few channels: of which im2col is done in shared memory, how their windows lie, and why not of others.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "families/sm90_conv/shared_memory.hpp"
#include "support/says.hpp"
#include "unisono/error.hpp"
#include "unit/families/sm90_conv/problems.hpp"

namespace unisono::families::sm90_conv {
namespace {

using testing::HasSubstr;

constexpr const char* bias_relu = "operand bias[n] : bf16\nstore relu(acc + bias[n]) as y : bf16\n";

Conv2d stem() {
  Conv2d c = test::conv_of(32, 224, 224, 3, 64, 7);
  c.stride = {2, 2};
  return c;
}

TEST(Im2colWindow, FirstLayersHaveIt) {
  Conv2d small = test::conv_of(32, 224, 224, 3, 32, 3);
  small.stride = {2, 2};
  for (const Conv2d& c : {stem(), small, test::conv_of(8, 256, 256, 3, 64, 3), test::conv_of(64, 64, 64, 1, 32, 5),
                          test::conv_of(8, 256, 256, 8, 64, 3), test::conv_of(8, 256, 256, 16, 32, 3)}) {
    const ConvPlan plan = choose(c, test::epilogue_of(bias_relu, c), Device{});
    EXPECT_TRUE(plan.config.window()) << to_string(Contraction(c)) << ": " << describe(plan);
    EXPECT_FALSE(plan.cooperative);
    const PlanOverride fixed = override_of(plan.config);
    EXPECT_EQ(fixed.fields.at("load"), "im2col_smem");
    EXPECT_EQ(choose(c, test::epilogue_of(bias_relu, c), Device{}, fixed).config, plan.config);
  }
  const Conv2d wide = test::conv_of(8, 128, 128, 64, 64, 3);
  for (const Answer& c : candidates(wide, test::epilogue_of(bias_relu, wide), Device{}))
    EXPECT_FALSE(c.plan.config.window());
}

TEST(Im2colWindow, Windows) {
  const Im2colWindow first = im2col_window_of(stem());
  EXPECT_EQ(first.shift, 7);    // of 9 elements of padding, at a multiple of 8
  EXPECT_EQ(first.pitch, 144);  // 7 + 63 elements, and one that is read with the last
  EXPECT_TRUE(first.odd());
  EXPECT_EQ(first.window_lines(256), 69);
  EXPECT_EQ(first.window_bytes(256), 9984u);  // 69 x 144, to 128
  EXPECT_EQ(first.line_chunks(), 3);
  EXPECT_EQ(first.steps(64), 3);
  EXPECT_EQ(first.steps(32), 6);
  const Im2colWindow odd = im2col_window_of(test::conv_of(1, 64, 64, 3, 64, 3));  // pixels 6 bytes apart
  EXPECT_EQ(odd.shift, 5);
  EXPECT_TRUE(odd.odd());
  EXPECT_EQ(odd.window_lines(128), 18);
  EXPECT_EQ(odd.window_bytes(128), (18u * odd.pitch + 127) / 128 * 128);
  EXPECT_EQ(odd.steps(64), 1);
  const Im2colWindow pixels = im2col_window_of(test::conv_of(1, 64, 63, 16, 64, 3));
  EXPECT_TRUE(pixels.by_pixels());
  EXPECT_FALSE(pixels.odd());
  EXPECT_EQ(pixels.pitch, 10 * 16 * 2);
  EXPECT_EQ(pixels.steps(32), 5);  // 3 lines of 6 chunks
}

TEST(Im2colWindow, NamesWhatStandsAgainstIt) {
  const auto reason = [](auto&& change) -> std::string {
    Conv2d c = test::conv_of(1, 64, 64, 3, 64, 3);
    change(c);
    const auto refusal = beyond_explicit_im2col(c);
    return refusal ? refusal->first() : "";
  };
  EXPECT_EQ(reason([](Conv2d&) {}), "");
  EXPECT_THAT(reason([](Conv2d& c) { c.c = 40; }), Says("40 input channels; … 32"));
  EXPECT_THAT(reason([](Conv2d& c) { c.w = 63; }), HasSubstr("image rows of 63 x 3 elements, not a multiple of 8"));
  EXPECT_EQ(reason([](Conv2d& c) { c.w = 63, c.c = 16; }), "");
  EXPECT_THAT(reason([](Conv2d& c) { c.dilation[1] = 2; }), HasSubstr("taps 2 apart along the width"));
  EXPECT_EQ(reason([](Conv2d& c) { c.dilation[0] = 2; }), "");
  EXPECT_EQ(reason([](Conv2d& c) { c.groups = 3; }), "3 groups of channels");
  EXPECT_EQ(reason([](Conv2d& c) { c.layout = Layout::nchw; }), "channels first");
  EXPECT_THAT(reason([](Conv2d& c) { c.r = c.s = 1; }), HasSubstr("filter of one tap"));
  EXPECT_THAT(reason([](Conv2d& c) { c.dtype_x = c.dtype_w = DType::f32; }), Says("f32; im2col … shared memory … 16"));
  EXPECT_THAT(reason([](Conv2d& c) { c.stride[1] = 13; }), Says("288 elements … row under 8 pixels"));
  EXPECT_THAT(reason([](Conv2d& c) { c.dilation[0] = 100; }), HasSubstr("300 image rows under"));
  EXPECT_EQ(beyond_explicit_im2col(as_convolution(Gemm{.m = 64, .n = 64, .k = 8}))->first(), "a product");
  EXPECT_EQ(
      beyond_explicit_im2col(as_convolution(ConvTranspose2d{.n = 1, .h = 8, .w = 8, .c = 8, .k = 8, .r = 3, .s = 3}))
          ->first(),
      "a transposed convolution");
}

TEST(Im2colWindow, CandidatesThatAreRefused) {
  const auto refusal = [](const Conv2d& c, const std::string& fixed, const char* text = bias_relu) -> std::string {
    try {
      return "legal: " +
             to_string(choose(c, test::epilogue_of(text, c), {}, parse_plan("load=im2col_smem " + fixed)).config);
    } catch (const Unsupported& e) {
      return e.what();
    }
  };
  EXPECT_EQ(refusal(stem(), "tile=128x64 stages=4+2 order=pingpong swap=off"),
            "legal: 128x64/4+2 pingpong im2col_smem");
  EXPECT_THAT(refusal(stem(), "tile=128x32"), HasSubstr("im2col_smem: 32 channels a tile of 64"));
  EXPECT_THAT(refusal(stem(), "cluster=2x1"), HasSubstr("im2col_smem: a cluster of CTAs"));
  EXPECT_THAT(refusal(stem(), "split=on"), Says("split-K: … filters of all k-steps"));
  EXPECT_THAT(refusal(stem(), "order=pingpong2 mode=streamed", test::block),
              HasSubstr("im2col_smem: pingpong2, streamed;"));
  EXPECT_THAT(refusal(stem(), "stages=4+1"), HasSubstr("stages: one; at least two"));
  EXPECT_THAT(refusal(test::conv_of(1, 64, 64, 64, 64, 3), ""), Says("im2col_smem: 64 input channels; … 32"));
  Conv2d far = stem();
  far.stride = {9, 2};
  EXPECT_THAT(refusal(far, "tile=256x64"), Says("im2col_smem: 286 image rows … a TMA box has 256"));
  EXPECT_THAT(refusal(far, "tile=128x64"), HasSubstr("legal"));
  Conv2d deep = test::conv_of(1, 64, 64, 32, 256, 7);
  EXPECT_THAT(refusal(deep, "tile=64x256 order=pingpong"), HasSubstr("shared memory:"));
  EXPECT_THAT(refusal(test::conv_of(2, 64, 64, 3, 64, 3), "mode=resident", "store batch_norm(acc) as y : bf16\n"),
              Says("halo tiles: statistics … all images"));
}

TEST(Im2colWindow, TheReportSaysSo) {
  const Conv2d odd = test::conv_of(1, 64, 63, 3, 64, 3);
  EXPECT_THAT(explain(odd, test::epilogue_of(bias_relu, odd), Device{}),
              HasSubstr("; no im2col in shared memory: image rows of 63 x 3 elements, not a multiple of 8"));
  const std::string text = explain(stem(), test::epilogue_of(bias_relu, stem()), Device{}, parse_plan("tile=256x64"));
  EXPECT_THAT(text, HasSubstr("loads: windows of 69 image rows of 144 bytes, made an im2col matrix in shared memory: 7 "
                              "image rows of 7 taps x 3 "
                              "channels, 3 k-steps; filters stay there"));
}

}  // namespace
}  // namespace unisono::families::sm90_conv
