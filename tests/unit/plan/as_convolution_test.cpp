// Products as convolutions: the same rows, columns and memory.

#include "plan/as_convolution.hpp"

#include <gmock/gmock.h>

#include "coda/error.hpp"
#include "coda/tensor.hpp"

namespace coda::plan {
namespace {

using ::testing::HasSubstr;

constexpr Gemm linear{.m = 300, .n = 48, .k = 72, .transpose_b = true, .dtype_a = DType::f16, .dtype_b = DType::f16};

std::int64_t size(const std::vector<std::int64_t>& shape) { return element_count(shape); }

TEST(AsConvolution, LinearLayer) {
  const Conv2d conv = as_convolution(linear);
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
}

TEST(AsConvolution, ConvolutionsStayAsTheyAre) {
  const Conv2d conv{.n = 2, .h = 9, .w = 7, .c = 8, .k = 16, .r = 3, .s = 3, .stride = {2, 1}, .pad = {1, 1, 1, 1}};
  const Conv2d same = as_convolution(conv);
  EXPECT_EQ(to_string(Contraction(same)), to_string(Contraction(conv)));
  EXPECT_EQ(shape_mn(Contraction(same)), shape_mn(Contraction(conv)));
}

void expect_refusal(const Contraction& contraction, const std::vector<std::string>& words) {
  try {
    as_convolution(contraction);
    ADD_FAILURE() << "served: " << to_string(contraction);
  } catch (const Unsupported& error) {
    for (const std::string& word : words) EXPECT_THAT(error.what(), HasSubstr(word));
  }
}

TEST(AsConvolution, EveryReasonAtOnce) {
  Gemm other = linear;
  other.transpose_a = true, other.transpose_b = false, other.batch = 4;
  expect_refusal(other, {"A is (k, m)", "B is (k, n)", "4 products"});
  expect_refusal(ConvTranspose2d{.h = 4, .w = 4, .c = 8, .k = 8}, {"transposed convolutions", "Device::cpu"});
}

}  // namespace
}  // namespace coda::plan
