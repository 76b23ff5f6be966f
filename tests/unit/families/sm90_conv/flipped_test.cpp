// Transposed convolutions of stride 1 by flipped taps: what is planned, beside the convolution whose gradient it is.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "families/sm90_conv/tensor_maps.hpp"
#include "unisono/error.hpp"
#include "unit/families/sm90_conv/problems.hpp"

namespace unisono::families::sm90_conv {
namespace {

using testing::HasSubstr;

constexpr const char* bare_text = "store acc as y : bf16";
constexpr const char* block_text =
    "store silu(group_norm(acc + bias[n], groups=32, scale=gamma[n], shift=beta[n])) as y : bf16";

struct Shape {
  std::int64_t n, h, w, c, k, taps;
};
// bench/cases/conv.txt
constexpr std::array shapes{
    Shape{2, 64, 64, 320, 320, 3},   Shape{2, 32, 32, 640, 640, 3},  Shape{2, 16, 16, 1280, 1280, 3},
    Shape{8, 64, 64, 320, 320, 3},   Shape{8, 32, 32, 640, 640, 3},  Shape{16, 128, 128, 128, 128, 3},
    Shape{4, 256, 256, 128, 128, 3}, Shape{32, 56, 56, 256, 256, 3}, Shape{8, 64, 64, 320, 320, 1},
    Shape{1, 512, 512, 128, 128, 3}, Shape{8, 256, 256, 64, 64, 3}};

Conv2d forward_of(const Shape& s) {
  Conv2d c = test::conv_of(s.n, s.h, s.w, s.c, s.k, s.taps);
  c.pad = s.taps / 2;
  return c;
}

ConvTranspose2d gradient_of(const Conv2d& c) {
  const Extents e = extents(Contraction(c));
  return {.n = c.n,
          .h = e.height,
          .w = e.width,
          .c = c.k,
          .k = c.c,
          .r = c.r,
          .s = c.s,
          .stride = c.stride,
          .pad = c.pad,
          .dilation = c.dilation,
          .dtype_x = c.dtype_x,
          .dtype_w = c.dtype_w};
}

ConvPlan plan_of(const Contraction& contraction, const char* text, const std::string& fixed = "") {
  const Graph graph = passes::run_pipeline(parse(text));
  return choose(as_convolution(contraction), analyse(graph, extents(contraction), families::tile_limits()).value(),
                Device{}, parse_plan(fixed));
}

// The same products as the convolution's, of filters that lie otherwise
TEST(Flipped, AsFastAsTheConvolutionWhoseGradientItIs) {
  for (const Shape& s : shapes)
    for (const char* text : {bare_text, block_text}) {
      const Conv2d forward = forward_of(s);
      const ConvPlan there = plan_of(forward, text), back = plan_of(gradient_of(forward), text);
      EXPECT_LE(back.predicted_us, 1.10 * there.predicted_us) << to_string(Contraction(forward)) << "\n"
                                                              << text << "\n"
                                                              << describe(there) << "\n"
                                                              << describe(back);
      EXPECT_FALSE(back.config.gathered());
    }
}

TEST(Flipped, FiltersAreReadAsTheyLie) {
  ConvTranspose2d t = gradient_of(test::conv_of(2, 9, 13, 96, 72, 3));
  t.pad = {1, 0, 2, 3}, t.dilation = {2, 1};
  for (const char* load : {"load=halo", "load=im2col", "load=im2col depth=128", "load=halo depth=128"}) {
    const ConvPlan p = plan_of(t, bare_text, load);
    EXPECT_TRUE(p.config.operands.flipped && p.config.columns_b() && !p.config.operands.columns_b);
    EXPECT_THAT(describe(p), HasSubstr(" flipped"));
    const MapShape filter = map_shapes(as_planned(as_convolution(t), p.config), p).filter;
    EXPECT_EQ(filter.rank, 3);
    EXPECT_EQ(filter.extents, (std::array<std::uint64_t, 5>{96, 9, 72, 1}));
    EXPECT_EQ(filter.strides, (std::array<std::uint64_t, 4>{192, 1728, 0}));
    EXPECT_EQ(filter.box, (std::array<std::uint32_t, 5>{64, 1, 64, 1}));
    EXPECT_EQ(filter.swizzle_bytes, 128);
  }
}

// A filter of one tap is a matrix (k, n), and pixels are rows, unless the padding leaves out some
TEST(Flipped, OneTapIsAProduct) {
  ConvTranspose2d t = gradient_of(test::conv_of(2, 9, 13, 96, 72, 1));
  t.pad = 0;
  const ConvPlan whole = plan_of(t, bare_text, "load=im2col");
  EXPECT_TRUE(whole.config.loads(Im2colTile::Box::rows) && whole.config.operands.flipped);
  EXPECT_TRUE(plan_of(t, bare_text, "load=halo").config.operands.flipped);
  t.pad = {1, 0, 0, 2};
  const ConvPlan part = plan_of(t, bare_text, "load=im2col");
  EXPECT_TRUE(part.config.loads(Im2colTile::Box::pixels) && part.config.operands.flipped);
  const MapShape image = map_shapes(as_planned(as_convolution(t), part.config), part).activation;
  EXPECT_EQ(image.lower, (std::array<int, 3>{0, 1}));
  EXPECT_EQ(image.upper, (std::array<int, 3>{-2, 0}));
}

// What is refused falls back to ordinary loads, and says why
TEST(Flipped, TheReasonIsNamed) {
  ConvTranspose2d t = gradient_of(test::conv_of(2, 9, 13, 92, 72, 3));
  const auto epilogue = analyse(passes::run_pipeline(parse(bare_text)), extents(t), families::tile_limits()).value();
  EXPECT_THAT(explain(as_convolution(t), epilogue, Device{}, parse_plan("family=sm90_conv")),
              HasSubstr("a transposed convolution, not by flipped taps: 72 input and 92 output channels"));
  t = gradient_of(test::conv_of(2, 9, 13, 96, 72, 3));
  EXPECT_TRUE(plan_of(t, bare_text, "load=gather").config.gathered());
  const auto served = analyse(passes::run_pipeline(parse(bare_text)), extents(t), families::tile_limits()).value();
  EXPECT_THAT(explain(as_convolution(t), served, Device{}), HasSubstr("their taps in reverse"));
}

}  // namespace
}  // namespace unisono::families::sm90_conv
