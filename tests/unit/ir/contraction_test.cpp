#include "unisono/contraction.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unisono/error.hpp"
#include "unisono/tensor.hpp"

namespace unisono {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string error_of(const Contraction& c) {
  try {
    extents(c);
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

Conv2d conv() { return {.n = 2, .h = 9, .w = 7, .c = 8, .k = 16, .r = 3, .s = 3}; }

TEST(Contraction, Gemm) {
  const Gemm g{.batch = 3, .m = 5, .n = 7, .k = 11, .transpose_a = true};
  EXPECT_EQ(extents(g), (Extents{.images = 3, .height = 5, .width = 1, .cols = 7}));
  EXPECT_EQ(extents(g).rows(), 15);
  EXPECT_THAT(shape_a(g), ElementsAre(3, 11, 5));
  EXPECT_THAT(shape_b(g), ElementsAre(3, 11, 7));
  EXPECT_THAT(shape_mn(g), ElementsAre(3, 5, 7));
  EXPECT_EQ(depth(g), 11);
  EXPECT_EQ(flop(g), 2.0 * 3 * 5 * 7 * 11);
}

TEST(Contraction, Conv2d) {
  auto c = conv();
  EXPECT_EQ(extents(c), (Extents{.images = 2, .height = 7, .width = 5, .cols = 16}));
  c.pad = {1, 2, 0, 1};
  c.stride = {2, 3};
  EXPECT_EQ(extents(c), (Extents{.images = 2, .height = 4, .width = 3, .cols = 16}));
  c.dilation = {2, 1};
  EXPECT_EQ(extents(c).height, 3);
  EXPECT_EQ(depth(c), 72);
  EXPECT_THAT(shape_a(c), ElementsAre(2, 9, 7, 8));
  EXPECT_THAT(shape_b(c), ElementsAre(16, 3, 3, 8));
  c.layout = Layout::nchw;
  c.groups = 4;
  EXPECT_THAT(shape_a(c), ElementsAre(2, 8, 9, 7));
  EXPECT_THAT(shape_b(c), ElementsAre(16, 2, 3, 3));
  EXPECT_THAT(shape_mn(c), ElementsAre(2, 16, 3, 3));
  EXPECT_EQ(depth(c), 18);
}

TEST(Contraction, ConvTranspose2dUndoesTheShapeOfConv2d) {
  for (const std::int64_t stride : {1, 2, 3})
    for (const std::int64_t pad : {0, 1})
      for (const std::int64_t dilation : {1, 2}) {
        auto c = conv();
        c.stride = {stride, stride};
        c.pad = {pad, pad, pad, pad};
        c.dilation = {dilation, dilation};
        const Extents e = extents(c);
        const ConvTranspose2d t = input_gradient(c);
        EXPECT_EQ(extents(t), (Extents{.images = 2, .height = c.h, .width = c.w, .cols = 8}));
        EXPECT_EQ(t.output_pad,
                  Pair((c.h + 2 * pad - 2 * dilation - 1) % stride, (c.w + 2 * pad - 2 * dilation - 1) % stride));
        EXPECT_EQ(shape_a(t), shape_mn(c));
        EXPECT_EQ(shape_b(t), shape_b(c));
        EXPECT_EQ(shape_mn(t), shape_a(c));
        EXPECT_EQ(shape_a(t), (std::vector<std::int64_t>{2, e.height, e.width, 16}));
      }
}

TEST(Contraction, InputGradientOfGroupsAndPlanes) {
  auto c = conv();
  c.groups = 4, c.layout = Layout::nchw, c.pad = {2, 0, 1, 1}, c.stride = {3, 2}, c.dtype_x = c.dtype_w = DType::f16;
  const ConvTranspose2d t = input_gradient(c);
  EXPECT_EQ(shape_b(t), shape_b(c));
  EXPECT_EQ(shape_mn(t), shape_a(c));
  EXPECT_EQ(t.attributes(), (ConvAttributes{c.stride, c.pad, {0, 1}, 1, 4}));
  EXPECT_EQ(t.dtype_x, DType::f16);
  c.products = 2;
  EXPECT_THROW(input_gradient(c), UserError);
  c = conv(), c.r = 20;
  EXPECT_THROW(input_gradient(c), UserError);
}

TEST(Contraction, ErrorsNameTheField) {
  auto c = conv();
  c.stride.w = 0;
  EXPECT_THAT(error_of(c), HasSubstr("conv2d: stride is 1x0; expected 1 to 2^24"));
  c = conv();
  c.pad.bottom = -1;
  EXPECT_THAT(error_of(c), HasSubstr("pad is 0,0,-1,0 (top, left, bottom, right); expected 0 to 2^31"));
  c = conv();
  c.groups = 3;
  EXPECT_THAT(error_of(c), HasSubstr("8 input and 16 output channels with groups=3"));
  c = conv();
  c.dilation = {5, 1};
  EXPECT_THAT(error_of(c), HasSubstr("fit the padded image"));
  EXPECT_THAT(error_of(Gemm{.m = 1, .n = 1, .k = 0}), HasSubstr("gemm: k is 0"));
  ConvTranspose2d t{.h = 4, .w = 4, .c = 1, .k = 1};
  t.output_pad = {0, 1};
  EXPECT_THAT(error_of(t), HasSubstr("output_pad is 0x1; expected 0 to below max(stride, dilation) = 1x1"));
}

TEST(Contraction, ExtentsThatWouldOverflowAreRefused) {
  constexpr std::int64_t huge = std::int64_t{1} << 31;
  EXPECT_THAT(error_of(Gemm{.m = huge, .n = 1, .k = huge}), HasSubstr("the left operand would have"));
  EXPECT_THAT(error_of(Gemm{.m = 1, .n = huge, .k = huge}), HasSubstr("the right operand would have"));
  EXPECT_THAT(error_of(Gemm{.m = huge, .n = huge, .k = 1}), HasSubstr("the output would have"));
  EXPECT_THAT(error_of(Gemm{.m = huge + 1, .n = 1, .k = 1}), HasSubstr("m is 2147483649"));
  ConvTranspose2d t{.h = huge, .w = huge, .c = 1, .k = 1};
  t.pad = {huge / 2, huge / 2, huge / 2 - 1, huge / 2 - 1};
  EXPECT_THAT(error_of(t), HasSubstr("the image would have"));
  Conv2d c{.h = 1, .w = 1, .c = 1, .k = 1, .r = huge, .s = huge};
  EXPECT_THAT(error_of(c), HasSubstr("the filter would have"));
  c = {.h = 1, .w = 1, .c = 1, .k = 1};
  c.pad = {huge, huge, 0, 0};
  EXPECT_THAT(error_of(c), HasSubstr("the padded image would have"));
  c.stride = {1 << 24, 1 << 24};  // few outputs
  EXPECT_THAT(error_of(c), HasSubstr("the padded image would have"));
  t = {.h = 2, .w = 2, .c = 1, .k = 1, .r = 2, .s = 2};
  t.dilation = {1 << 24, 1 << 24};
  t.pad = {(1 << 24) - 1, (1 << 24) - 1, 0, 0};
  EXPECT_THAT(error_of(t), HasSubstr("the uncropped output would have"));
  Conv3d v{.n = 1, .d = 1, .h = 1, .w = 1, .c = 1, .k = 1};
  v.stride = v.before = {1 << 24, 1 << 24, 1 << 24};
  EXPECT_THAT(error_of(v), HasSubstr("the padded volume would have"));
}

TEST(Contraction, Volumes) {
  Conv3d c{.n = 2, .d = 5, .h = 9, .w = 7, .c = 8, .k = 16, .t = 3, .r = 3, .s = 2};
  c.stride = {2, 1, 3}, c.before = {1, 2, 0}, c.after = {0, 2, 1}, c.dilation = {1, 2, 1};
  // planes (5 + 1 - 3) / 2 + 1, rows 9 + 4 - 5 + 1, columns (7 + 1 - 2) / 3 + 1: planes are image rows
  EXPECT_EQ(extents(c), (Extents{.images = 2, .height = 2 * 9, .width = 3, .cols = 16}));
  EXPECT_EQ(output_planes(c), 2);
  EXPECT_THAT(shape_a(c), ElementsAre(2, 5, 9, 7, 8));
  EXPECT_THAT(shape_b(c), ElementsAre(16, 3, 3, 2, 8));
  EXPECT_THAT(shape_mn(c), ElementsAre(2, 2, 9, 3, 16));
  EXPECT_EQ(depth(c), 3 * 3 * 2 * 8);
  EXPECT_EQ(flop(c), 2.0 * 2 * 2 * 9 * 3 * 16 * 144);
  EXPECT_EQ(to_string(c), "conv3d 2x5x9x7x8 -> 16, 3x3x2, stride 2x1x3, pad 1x2x0 to 0x2x1, dilation 1x2x1, f32");
  c.before = c.after = 0, c.dilation = 4;
  EXPECT_THAT(error_of(c), HasSubstr("the output would be 0x1x1 voxels"));
  c.stride = {1, 0, 1};
  EXPECT_THAT(error_of(c), HasSubstr("stride is 1x0x1; expected 1 to 2^24"));
  EXPECT_THAT(error_of(Conv3d{.d = 1, .h = 1, .w = 1, .c = 6, .k = 4, .groups = 3}),
              HasSubstr("6 input and 4 output channels with groups=3"));
}

TEST(Contraction, FilterGradient) {
  FilterGradient2d g{.n = 2, .h = 9, .w = 7, .c = 8, .k = 16, .r = 3, .s = 2};
  g.stride = {2, 1}, g.pad = 1;
  EXPECT_EQ(extents(g), (Extents{.images = 1, .height = 16, .width = 1, .cols = 48}));
  EXPECT_THAT(shape_a(g), ElementsAre(2, 5, 8, 16));
  EXPECT_THAT(shape_b(g), ElementsAre(2, 9, 7, 8));
  EXPECT_THAT(shape_mn(g), ElementsAre(16, 3, 2, 8));
  EXPECT_EQ(depth(g), 2 * 5 * 8);
  EXPECT_EQ(flop(g), flop(g.convolution()));
  EXPECT_TRUE(has_left_and_right(g));
  EXPECT_EQ(to_string(Contraction(g)), "filter_gradient2d 2x9x7x8 -> 16, 3x2, stride 2x1, pad 1, f32");
  g.r = 20;
  EXPECT_THAT(error_of(g), HasSubstr("filter_gradient2d: the output would be 0x8 pixels"));
  g.r = 0;
  EXPECT_THAT(error_of(g), HasSubstr("r is 0"));
}

TEST(Contraction, GroupedProduct) {
  Gemm g{.m = 128, .n = 7, .k = 11, .group_rows = {100, 28}};
  EXPECT_EQ(extents(g), (Extents{.images = 1, .height = 128, .width = 1, .cols = 7}));
  EXPECT_THAT(shape_a(g), ElementsAre(1, 128, 11));
  EXPECT_THAT(shape_b(g), ElementsAre(2, 11, 7));
  EXPECT_EQ(flop(g), 2.0 * 128 * 7 * 11);
  EXPECT_EQ(to_string(Contraction(g)), "grouped gemm 100+28 rows x 7 x 11, f32");
  g.m = 129;
  EXPECT_THAT(error_of(g), HasSubstr("m is 129, and its groups have 128 rows"));
  g.m = 100, g.group_rows = {100, 0};
  EXPECT_THAT(error_of(g), HasSubstr("rows of a group is 0"));
  g.group_rows = {100}, g.transpose_a = true;
  EXPECT_THAT(error_of(g), HasSubstr("grouped product has batch 1"));
}

TEST(Contraction, Description) {
  Conv2d c = conv();
  c.pad = {1, 1, 1, 1};
  EXPECT_EQ(to_string(c), "conv2d 2x9x7x8 -> 16, 3x3, pad 1, f32");
  EXPECT_EQ(to_string(Gemm{.m = 1, .n = 2, .k = 3}), "gemm 1x2x3, f32");
}

TEST(Tensor, ElementCount) {
  EXPECT_EQ(element_count({}), 1);
  EXPECT_EQ(element_count({2, 3, 4}), 24);
  EXPECT_EQ(element_count({2, 0, 4}), 0);
  EXPECT_THROW(element_count({2, -1}), UserError);
  EXPECT_THROW(element_count({std::int64_t{1} << 32, std::int64_t{1} << 32}), UserError);
}

TEST(Tensor, RowMajorStrides) {
  EXPECT_THAT(row_major_strides({2, 3, 4}), ElementsAre(12, 4, 1));
  EXPECT_TRUE(row_major_strides({}).empty());
}

}  // namespace
}  // namespace unisono
