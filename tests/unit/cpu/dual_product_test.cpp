// Dual products on the CPU, every element against the float64 reference.

#include <gmock/gmock.h>

#include "unit/cpu/problem.hpp"

namespace unisono::test {
namespace {

using ::testing::HasSubstr;

const std::string texts[] = {
    "store silu(acc0) * acc1 as y : {}\n",
    "store gelu(acc0 + bias[n]) * (acc1 + more[n]) + r[m,n] as y : {}\n",
    "store acc0 as gate : {}\nstore acc1 as up : f32\nstore relu(acc0) * acc1 as y : {}\n",
    "g = clamp(acc0, upper=0.7)\nu = clamp(acc1, lower=-0.7, upper=0.7)\n"
    "store g * sigmoid(1.702 * g) * (u + 1) as y : {}\n",
    "store acc1 as y : {}\n",
    // stages: both accumulators are kept, or what is made of them
    "store batch_norm(acc0) * acc1 as y : {}\nstore sum(acc0 * acc1, over=m) as s : f32\n",
    "store layer_norm(silu(acc0) * acc1, scale=gamma[n]) as y : {}\n",
};

TEST(CpuDualProduct, AgreesWithTheReference) {
  std::uint64_t seed = 0;
  for (const Gemm& shape :
       {Gemm{.m = 37, .n = 24, .k = 11}, Gemm{.m = 130, .n = 33, .k = 70, .transpose_b = true},
        Gemm{.batch = 3, .m = 9, .n = 7, .k = 5, .transpose_a = true}, Gemm{.m = 1, .n = 19, .k = 8}})
    for (const std::string& text : texts)
      for (const char* type : {"f32", "bf16"})
        for (const DType factors : {DType::f32, DType::bf16}) {
          Gemm product = shape;
          product.products = 2, product.dtype_a = product.dtype_b = factors;
          RandomCase c = problem(product, of_dtype(text, type), ++seed);
          expect_agreement(c, 2);
        }
}

TEST(CpuDualProduct, OfConvolutionsAgreesWithTheReference) {
  std::uint64_t seed = 100;
  Conv2d strided{.n = 2, .h = 9, .w = 7, .c = 6, .k = 12, .r = 3, .s = 2, .stride = {2, 1}, .pad = {1, 0, 2, 1}};
  Conv2d planes{.n = 2, .h = 5, .w = 6, .c = 8, .k = 10, .r = 3, .s = 3, .pad = 2, .dilation = 2};
  planes.layout = Layout::nchw;
  Conv2d grouped{.n = 1, .h = 6, .w = 5, .c = 8, .k = 4, .r = 3, .s = 3, .pad = 1, .groups = 4}, one_tap = strided;
  one_tap.r = one_tap.s = 1, one_tap.pad = 0;
  for (const Conv2d& shape : {strided, planes, grouped, one_tap})
    for (const std::string& text : texts)
      for (const DType factors : {DType::f32, DType::bf16}) {
        Conv2d conv = shape;
        conv.products = 2, conv.dtype_x = conv.dtype_w = factors;
        RandomCase c = problem(conv, of_dtype(text, "f32"), ++seed);
        expect_agreement(c, 2);
      }
}

TEST(CpuDualProduct, OfConstantFilters) {
  RandomCase c;
  c.contraction = Conv2d{.n = 2, .h = 7, .w = 6, .c = 8, .k = 12, .r = 3, .s = 3, .pad = 1, .products = 2};
  c.graph = parse("store silu(acc0) * acc1 as y : f32");
  random_arguments(c, 6, {.special = 0, .strided = 0});
  CompileOptions options = options_of(c, 2);
  options.constant_filter = c.arguments.filter, options.constant_right1 = c.arguments.right1;
  const Executable kernel = compile(c.contraction, c.graph, options);
  poison_outputs(c);
  kernel.run(c.arguments);
  const auto expected = reference::run(c.contraction, c.graph, c.arguments, {.function_ulps = cpu::function_ulps});
  EXPECT_TRUE(reference::compare(expected.at("y"), c.contraction, c.arguments.outputs.at("y")).ok());
}

// The sources that cut a product by its columns, or take one row at a time
TEST(CpuDualProduct, OfFewRows) {
  for (const bool is_constant : {false, true})
    for (const Gemm& shape :
         {Gemm{.m = 1, .n = 96, .k = 64}, Gemm{.m = 4, .n = 2048, .k = 512},
          Gemm{.m = 33, .n = 500, .k = 140, .transpose_b = true}, Gemm{.m = 60, .n = 48, .k = 40}}) {
      Gemm product = shape;
      product.products = 2;
      RandomCase c;
      c.contraction = product, c.graph = parse("store silu(acc0) * acc1 as y : f32");
      random_arguments(c, 5, {.special = 0, .strided = 0});
      CompileOptions options = options_of(c, 2);
      if (is_constant) options.constant_filter = c.arguments.right, options.constant_right1 = c.arguments.right1;
      const Executable kernel = compile(c.contraction, c.graph, options);
      EXPECT_THAT(kernel.describe(), HasSubstr("second accumulator: "));
      poison_outputs(c);
      kernel.run(c.arguments);
      const auto expected = reference::run(c.contraction, c.graph, c.arguments, {.function_ulps = cpu::function_ulps});
      EXPECT_TRUE(reference::compare(expected.at("y"), c.contraction, c.arguments.outputs.at("y")).ok())
          << to_string(c.contraction);
    }
}

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "none";
}

TEST(CpuDualProduct, RefusesWhatDoesNotFit) {
  RandomCase c = problem(Gemm{.m = 3, .n = 4, .k = 5, .products = 2}, "store acc0 * acc1 as y");
  Arguments missing = c.arguments;
  missing.right1 = {};
  const Executable kernel = compile(c.contraction, c.graph, options_of(c, 1));
  EXPECT_NE(error_of([&] { kernel.run(missing); }), "none");
  RandomCase single = problem(Gemm{.m = 3, .n = 4, .k = 5}, "store acc as y");
  single.arguments.right1 = c.arguments.right1;
  EXPECT_THAT(error_of([&] { compile(single.contraction, single.graph).run(single.arguments); }),
              HasSubstr("Arguments::right1 was given to a single product"));
  CompileOptions half = options_of(c, 1);
  half.constant_filter = c.arguments.right;
  EXPECT_THAT(error_of([&] { compile(c.contraction, c.graph, half); }), HasSubstr("without constant_right1"));
}

}  // namespace
}  // namespace unisono::test
