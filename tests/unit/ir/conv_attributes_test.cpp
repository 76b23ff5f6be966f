#include "unisono/conv_attributes.hpp"

#include <gmock/gmock.h>

#include <array>

#include "unisono/contraction.hpp"
#include "unisono/error.hpp"

namespace unisono {
namespace {

std::string refusal(const ConvAttributes& attributes, bool transposed) {
  try {
    check_attributes(attributes, transposed, "here");
  } catch (const UserError& error) {
    return error.what();
  }
  return "none";
}

TEST(ConvAttributes, EveryFieldHasARange) {
  EXPECT_EQ(refusal({}, false), "none");
  EXPECT_EQ(refusal({.stride = 1 << 24, .pad = 1, .dilation = 1 << 24, .groups = 7}, false), "none");
  EXPECT_EQ(refusal({.stride = {1, 0}}, false), "here: stride is 1x0; expected 1 to 2^24");
  EXPECT_EQ(refusal({.stride = (1 << 24) + 1}, true), "here: stride is 16777217x16777217; expected 1 to 2^24");
  EXPECT_EQ(refusal({.dilation = {-1, 1}}, true), "here: dilation is -1x1; expected 1 to 2^24");
  EXPECT_EQ(refusal({.pad = {0, 1, 2, -3}}, false),
            "here: pad is 0,1,2,-3 (top, left, bottom, right); expected 0 to 2^31");
  EXPECT_EQ(refusal({.pad = (std::int64_t{1} << 31) + 1}, false).substr(0, 23), "here: pad is 2147483649");
  EXPECT_EQ(refusal({.groups = 0}, false), "here: groups is 0; expected 1 to 2^31");
}

TEST(ConvAttributes, OnlyATransposedConvolutionPadsItsOutput) {
  EXPECT_EQ(refusal({.output_pad = {1, 0}}, false),
            "here: output_pad is 1x0; expected 0: only conv_transpose2d has one");
  EXPECT_EQ(refusal({.stride = {2, 1}, .output_pad = {1, 2}, .dilation = {1, 3}}, true), "none");
  EXPECT_EQ(refusal({.stride = {2, 1}, .output_pad = {1, 1}}, true),
            "here: output_pad is 1x1; expected 0 to below max(stride, dilation) = 2x1");
  EXPECT_EQ(refusal({.output_pad = {0, -1}}, true),
            "here: output_pad is 0x-1; expected 0 to below max(stride, dilation) = 1x1");
}

TEST(ConvAttributes, TextHasWhatDiffersFromTheDefaults) {
  EXPECT_EQ(to_string(ConvAttributes{}), "");
  EXPECT_EQ(to_string(ConvAttributes{.stride = 2, .pad = 1, .dilation = {2, 1}, .groups = 4}),
            ", stride 2x2, pad 1, dilation 2x1, groups 4");
  EXPECT_EQ(to_string(ConvAttributes{.pad = {1, 0, 1, 0}, .output_pad = {0, 1}}), ", pad 1,0,1,0, output_pad 0x1");
}

TEST(ConvAttributes, ContractionsSayTheSameFlat) {
  const Conv2d c{.n = 8, .h = 64, .w = 64, .c = 16, .k = 32, .r = 3, .s = 3, .stride = 2, .pad = 1, .groups = 4};
  EXPECT_EQ(c.attributes(), (ConvAttributes{.stride = 2, .pad = 1, .groups = 4}));
  EXPECT_EQ(extents(c), (Extents{.images = 8, .height = 32, .width = 32, .cols = 32}));
  const ConvTranspose2d t{.h = 4, .w = 4, .c = 1, .k = 1, .stride = 2, .output_pad = {1, 0}, .dilation = {1, 2}};
  EXPECT_EQ(t.attributes(), (ConvAttributes{.stride = 2, .output_pad = {1, 0}, .dilation = {1, 2}}));
  EXPECT_EQ(to_string(t), "conv_transpose2d 1x4x4x1 -> 1, 1x1, stride 2x2, output_pad 1x0, dilation 1x2, f32");
}

TEST(ConvAttributes, SidesAndAxesByNumber) {
  Margins m{1, 2, 3, 4};
  m[2] = 7;
  EXPECT_EQ(m, Margins(1, 2, 7, 4));
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(m[i], (std::array{m.top, m.left, m.bottom, m.right})[i]);
  Pair p{1, 2};
  p[1] = 5;
  EXPECT_EQ(p, Pair(1, 5));
}

}  // namespace
}  // namespace unisono
