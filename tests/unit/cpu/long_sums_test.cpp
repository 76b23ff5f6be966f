// Convolutions whose sums have thousands of terms: their error must not grow with the number of terms.

#include <cmath>

#include "unit/cpu/problem.hpp"

namespace unisono::test {
namespace {

// The largest error of an output over the root mean square of all of them
double largest_error(RandomCase& c, const CompileOptions& options) {
  poison_outputs(c);
  compile(c.contraction, c.graph, options).run(c.arguments);
  const auto expected = reference::run(c.contraction, c.graph, c.arguments).at("y");
  const auto found = reference::compare(expected, c.contraction, c.arguments.outputs.at("y"));
  EXPECT_TRUE(found.ok());
  double squares = 0;
  for (const double v : expected.value) squares += v * v;
  return found.largest_error / std::sqrt(squares / static_cast<double>(expected.value.size()));
}

Conv2d convolution(std::int64_t channels, Layout layout) {
  return {.n = 2, .h = 7, .w = 9, .c = channels, .k = 48, .r = 3, .s = 3, .pad = {1, 1, 1, 1}, .layout = layout};
}

// 4,608 terms one after the other are off by √2304 roundings of 2.5e-8, 1.2e-6, and the worst of 6,000 sums by four
// times that; sums of 288 terms by 3e-7 and 1.2e-6
TEST(CpuLongSums, ErrorsDoNotGrowWithTheLengthOfSums) {
  for (const Layout layout : {Layout::nhwc, Layout::nchw})
    for (const std::int64_t channels : {512, 320}) {
      RandomCase c = problem(convolution(channels, layout), "store acc + bias[n] as y : f32\n", 11);
      EXPECT_LT(largest_error(c, options_of(c, 2)), 2.4e-6) << to_string(c.contraction);
      CompileOptions constant = options_of(c, 2);
      constant.constant_b = c.arguments.b;
      EXPECT_LT(largest_error(c, constant), 2.4e-6) << to_string(c.contraction) << ", constant filter";
    }
}

// 9,216 terms are off by 1.6e-6 as one chain, the worst of 512 sums by three times that; chains of 1,024 terms
// by 5.7e-7
TEST(CpuLongSums, ProductsOfFewRows) {
  for (const std::int64_t rows : {1, 2, 9})
    for (const bool transposed : {false, true}) {
      RandomCase c = problem(Gemm{.m = rows, .n = 512, .k = 9216, .transpose_b = transposed},
                             "store acc + bias[n] as y : f32\n", 13);
      CompileOptions constant = options_of(c, 2);
      constant.constant_b = c.arguments.b;
      EXPECT_LT(largest_error(c, constant), 3e-6) << to_string(c.contraction);
    }
}

// Numbers of channels that divide evenly into few parts or none, with every kind of packing
TEST(CpuLongSums, EveryNumberOfChannels) {
  for (const std::int64_t channels : {80, 96, 100, 128, 160, 224}) {
    RandomCase c = problem(convolution(channels, Layout::nhwc), "store acc + bias[n] as y : f32\n", 12);
    expect_agreement(c, 2);
  }
}

}  // namespace
}  // namespace unisono::test
