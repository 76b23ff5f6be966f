// Products as convolutions: the same rows, columns and memory.

#include "plan/as_convolution.hpp"

#include <gtest/gtest.h>

#include "unisono/tensor.hpp"

namespace unisono::plan {
namespace {

const Gemm linear{.m = 300, .n = 48, .k = 72, .transpose_b = true, .dtype_a = DType::f16, .dtype_b = DType::f16};

std::int64_t size(const std::vector<std::int64_t>& shape) { return element_count(shape); }

TEST(AsConvolution, LinearLayer) {
  const ConvTask task = as_convolution(linear);
  const Conv2d& conv = task.conv;
  const Contraction product = linear;
  EXPECT_EQ(extents(Contraction(conv)).rows(), 300);
  EXPECT_EQ(extents(Contraction(conv)).images, 1);
  EXPECT_EQ(extents(Contraction(conv)).cols, 48);
  EXPECT_EQ(depth(Contraction(conv)), depth(product));
  EXPECT_EQ(flop(Contraction(conv)), flop(product));
  EXPECT_EQ(size(shape_a(Contraction(conv))), size(shape_a(product)));
  EXPECT_EQ(size(shape_b(Contraction(conv))), size(shape_b(product)));
  EXPECT_EQ(conv.dtype_x, DType::f16);
  EXPECT_EQ(conv.dtype_w, DType::f16);
  EXPECT_FALSE(task.columns_a || task.columns_b || task.batched);
}

TEST(AsConvolution, LayoutsAndBatches) {
  for (const bool columns_a : {false, true})
    for (const bool columns_b : {false, true})
      for (const std::int64_t batch : {1, 5}) {
        Gemm product = linear;
        product.batch = batch, product.transpose_a = columns_a, product.transpose_b = !columns_b;
        const ConvTask task = as_convolution(product);
        EXPECT_EQ(task.columns_a, columns_a);
        EXPECT_EQ(task.columns_b, columns_b);
        EXPECT_EQ(task.batched, batch == 5);
        EXPECT_EQ(extents(Contraction(task.conv)).images, batch);
        EXPECT_EQ(extents(Contraction(task.conv)).rows_per_image(), 300);
        EXPECT_EQ(size(shape_mn(Contraction(task.conv))), size(shape_mn(Contraction(product))));
        EXPECT_EQ(depth(Contraction(task.conv)), 72);
      }
}

TEST(AsConvolution, ConvolutionsStayAsTheyAre) {
  const Conv2d conv{.n = 2, .h = 9, .w = 7, .c = 8, .k = 16, .r = 3, .s = 3, .stride = {2, 1}, .pad = {1, 1, 1, 1}};
  const Conv2d same = as_convolution(conv).conv;
  EXPECT_EQ(to_string(Contraction(same)), to_string(Contraction(conv)));
  EXPECT_EQ(shape_mn(Contraction(same)), shape_mn(Contraction(conv)));
}

TEST(AsConvolution, TransposedConvolutionsKeepTheirExtents) {
  const ConvTranspose2d t{.n = 2, .h = 4, .w = 5, .c = 8, .k = 16, .r = 3, .s = 3, .stride = {2, 2}};
  const ConvTask task = as_convolution(t);
  ASSERT_TRUE(task.transposed);
  EXPECT_EQ(extents(task.contraction()), extents(Contraction(t)));
  EXPECT_EQ(task.conv.k, 16);
  EXPECT_EQ(task.conv.stride, Pair(2));
}

TEST(AsConvolution, KeepsWhatOnlySomeFamiliesServe) {
  FilterGradient2d gradient{.n = 2, .h = 9, .w = 7, .c = 8, .k = 16, .r = 3, .s = 2};
  gradient.dtype_y = gradient.dtype_x = DType::f16;
  const ConvTask of_gradient = as_convolution(gradient);
  ASSERT_TRUE(of_gradient.gradient);
  EXPECT_EQ(to_string(of_gradient.contraction()), to_string(Contraction(gradient)));
  EXPECT_EQ(extents(of_gradient.conv), extents(gradient.convolution()));
  Gemm grouped = linear;
  grouped.group_rows = {100, 200};
  EXPECT_EQ(as_convolution(grouped).group_rows, grouped.group_rows);
  EXPECT_FALSE(as_convolution(grouped).batched);
}

}  // namespace
}  // namespace unisono::plan
