// Convolutions whose sums have thousands of terms: their error must not grow with the number of terms.

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "runtime/cpu/ops/image.hpp"
#include "runtime/cpu/ops/matmul.hpp"
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
      constant.constant_filter = c.arguments.b(c.contraction);
      EXPECT_LT(largest_error(c, constant), 2.4e-6) << to_string(c.contraction) << ", constant filter";
    }
}

// Each group's channels fall into parts; images that lie channels-first are packed by group
TEST(CpuLongSums, GroupedConvolutions) {
  for (const Layout layout : {Layout::nhwc, Layout::nchw})
    for (const std::int64_t groups : {2, 3}) {
      Conv2d grouped = convolution(256 * groups, layout);
      grouped.groups = groups;
      RandomCase c = problem(grouped, "store acc + bias[n] as y : f32\n", 14);
      EXPECT_LT(largest_error(c, options_of(c, 2)), 2.4e-6) << to_string(c.contraction);
      expect_agreement(c, 2);
    }
}

TEST(CpuLongSums, ConvolutionsOfOneTap) {
  for (const Layout layout : {Layout::nhwc, Layout::nchw})
    for (const std::int64_t stride : {1, 2}) {
      Conv2d single = convolution(2048, layout);
      single.k = 128, single.r = single.s = 1, single.pad = {0, 0, 0, 0}, single.stride = {stride, stride};
      RandomCase c = problem(single, "store acc + bias[n] as y : f32\n", 15);
      EXPECT_LT(largest_error(c, options_of(c, 2)), 1.8e-6) << to_string(c.contraction);
    }
}

// The last part may be shorter than the others
TEST(CpuLongSums, ProductsOfManyRows) {
  for (const std::int64_t terms : {3136, 3072, 3201})
    for (const bool transposed : {false, true}) {
      RandomCase c =
          problem(Gemm{.batch = 2, .m = 24, .n = 48, .k = terms, .transpose_a = transposed, .transpose_b = transposed},
                  "store acc + bias[n] as y : f32\n", 16);
      EXPECT_LT(largest_error(c, options_of(c, 2)), 2.3e-6) << to_string(c.contraction);
      expect_agreement(c, 2);
    }
}

// Strips of 64 rows or more read the left operand where it stands, whose rows may lie further apart; parts of the right
// one are taken out of the whole
TEST(CpuLongSums, StripsOfManyRows) {
  for (const std::int64_t rows : {64, 197, 512})
    for (const bool transposed : {false, true}) {
      RandomCase c = problem(Gemm{.m = rows, .n = 48, .k = 772, .transpose_b = transposed},
                             "store layer_norm(acc + bias[n] + r[m,n], scale=s[n], shift=t[n]) as y : f32\n", 21);
      CompileOptions constant = options_of(c, 2);
      constant.constant_filter = c.arguments.b(c.contraction);
      EXPECT_LT(largest_error(c, constant), 2.3e-6) << to_string(c.contraction);
      expect_agreement(c, 1);
    }
}

// Classifiers and squeeze-and-excite: within two roundings of the largest of 1,000 sums
TEST(CpuLongSums, OneRow) {
  Conv2d pixel{.n = 2, .h = 1, .w = 1, .c = 1152, .k = 48};
  for (const Contraction& contraction :
       {Contraction(pixel), Contraction(Gemm{.m = 1, .n = 1000, .k = 2048, .transpose_b = true}),
        Contraction(Gemm{.m = 1, .n = 70, .k = 999})}) {
    RandomCase c = problem(contraction, "store acc + bias[n] as y : f32\n", 18);
    random_arguments(c, 18, {.special = 0, .strided = 0});
    CompileOptions constant = options_of(c, 2);
    constant.constant_filter = c.arguments.b(c.contraction);
    EXPECT_LT(largest_error(c, constant), 4e-7) << to_string(contraction);
  }
}

// As an attention over the channels of an image multiplies them
TEST(CpuLongSums, BatchedProducts) {
  const std::int64_t batch = 3, m = 32, k = 3136, n = 32;
  std::mt19937 random(17);
  std::normal_distribution<float> normal;
  std::vector<float> a(static_cast<std::size_t>(batch * m * k)), b(static_cast<std::size_t>(batch * k * n));
  std::generate(a.begin(), a.end(), [&] { return normal(random); });
  std::generate(b.begin(), b.end(), [&] { return normal(random); });
  std::vector<float> y(static_cast<std::size_t>(batch * m * n));
  const cpu::Strided of_a{.shape = {batch, m, k}, .strides = {m * k, k, 1}};
  const cpu::Strided of_b{.shape = {batch, k, n}, .strides = {k * n, n, 1}};
  const cpu::Strided of_y{.shape = {batch, m, n}, .strides = {m * n, n, 1}};
  const cpu::BatchedMatmul product(of_a, of_b, of_y);
  const cpu::AlignedBuffer scratch(product.thread_bytes());
  product.run(a.data(), b.data(), y.data(), cpu::serial, {scratch.data(), 1});
  double squares = 0, worst = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::size_t row = i / static_cast<std::size_t>(n), image = row / static_cast<std::size_t>(m);
    const float* from = b.data() + image * static_cast<std::size_t>(k * n) + i % static_cast<std::size_t>(n);
    double sum = 0;
    for (std::size_t t = 0; t < static_cast<std::size_t>(k); ++t)
      sum += static_cast<double>(a[row * static_cast<std::size_t>(k) + t]) * from[t * static_cast<std::size_t>(n)];
    squares += sum * sum;
    worst = std::max(worst, std::abs(y[i] - sum));
  }
  EXPECT_LT(worst / std::sqrt(squares / static_cast<double>(y.size())), 2e-6);
}

// 9,216 terms are off by 1.6e-6 as one chain, the worst of 512 sums by three times that; chains of 320 terms
// by 3.2e-7
TEST(CpuLongSums, ProductsOfFewRows) {
  for (const std::int64_t rows : {1, 2, 9, 16})
    for (const bool transposed : {false, true}) {
      RandomCase c = problem(Gemm{.m = rows, .n = 512, .k = 9216, .transpose_b = transposed},
                             "store acc + bias[n] as y : f32\n", 13);
      EXPECT_LT(largest_error(c, options_of(c, 2)), 2.4e-6) << to_string(c.contraction);
      CompileOptions constant = options_of(c, 2);
      constant.constant_filter = c.arguments.b(c.contraction);
      EXPECT_LT(largest_error(c, constant), 2.4e-6) << to_string(c.contraction);
    }
}

// Right operands that lie anyhow, are no constants and are read where they lie if they are dense; from 16 rows on as
// the left factor
TEST(CpuLongSums, RightOperandsOfFewRows) {
  std::uint64_t seed = 31;
  for (const std::int64_t rows : {1, 3, 15, 16, 17, 64})
    for (const auto& [columns, terms] : {std::pair<std::int64_t, std::int64_t>{131, 517}, {1000, 67}, {4099, 17}})
      for (const bool transposed : {false, true})
        for (const char* text : {"store acc as y : f32\n", "store gelu(acc + bias[n]) * r[m,n] as y : f32\n"}) {
          const Gemm product{.m = rows, .n = columns, .k = terms, .transpose_b = transposed};
          RandomCase c = problem(product, text, ++seed);
          expect_agreement(c, 2);
          const std::string kernel = compile(c.contraction, c.graph, options_of(c, 2)).describe();
          EXPECT_NE(kernel.find("right operand read in place, in"), std::string::npos) << kernel;
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
