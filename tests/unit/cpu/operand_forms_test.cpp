// Operands that lack coordinates of rows, that are not bound, and rounding of stores on the CPU, every element against
// the float64 reference.

#include <gtest/gtest.h>

#include "unit/cpu/problem.hpp"

namespace unisono::test {
namespace {

const std::string texts[] = {
    "store acc + c[h,w,n] + pos[h,w] as y : {}\n",
    "store acc * line[h] - column[w] + d[h,n] + e[w,n] as y : {}\n",
    "operand c[m,n] : bf16 strided\noperand bias[n] = 0.25\noperand gain[b] = 1.5\noperand s[m] = -0.5\n"
    "store acc * gain + bias + s + c as y : {} strided\n",
    "operand t[b,n] = 0.5\nstore silu(group_norm(acc + pos[h,w], groups=2)) + t as y : {}\n",
};

TEST(CpuOperandForms, AgreeWithTheReference) {
  std::uint64_t seed = 70;
  const std::vector<Contraction> problems{
      Conv2d{.n = 2, .h = 7, .w = 9, .c = 5, .k = 12, .r = 3, .s = 3, .pad = {1, 1, 1, 1}},
      Conv2d{.n = 3, .h = 5, .w = 4, .c = 3, .k = 8, .r = 1, .s = 1, .layout = Layout::nchw},
      Gemm{.batch = 3, .m = 37, .n = 24, .k = 11}, Gemm{.m = 130, .n = 32, .k = 70, .transpose_b = true}};
  for (const Contraction& contraction : problems)
    for (const std::string& text : texts)
      for (const char* type : {"f32", "bf16"}) {
        RandomCase c = problem(contraction, of_dtype(text, type), ++seed);
        expect_agreement(c, 2);
      }
}

// The accumulators are integers, so that nothing but the rounding is left to differ: bit by bit
TEST(CpuOperandForms, RoundingIsTheReferencesBitByBit) {
  const Gemm product{.m = 40, .n = 48, .k = 8};
  std::vector<float> a(40 * 8), b(8 * 48), y(40 * 48), z(40 * 48), w(40 * 48);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i * 37 % 101) - 50;
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i * 53 % 89) - 44;
  const Graph graph = parse(
      "operand seed : i32 = 9\nstore cast(round_stochastic_bf16(acc, seed, index(m), index(n), 0), f32) as y : f32\n"
      "store cast(round_stochastic_f16(acc * 0.001, seed, index(m), index(n), 1), f32) as z : f32\n"
      "store cast(round_toward_zero_bf16(acc), f32) as w : f32\n");
  Arguments arguments{.left = {a.data(), DType::f32, {1, 40, 8}, {}}, .right = {b.data(), DType::f32, {1, 8, 48}, {}}};
  arguments.outputs = {{"y", {y.data(), DType::f32, {1, 40, 48}, {}}},
                       {"z", {z.data(), DType::f32, {1, 40, 48}, {}}},
                       {"w", {w.data(), DType::f32, {1, 40, 48}, {}}}};
  compile(product, graph).run(arguments);
  const auto expected = reference::run(product, graph, arguments);
  int up = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    EXPECT_EQ(y[i], expected.at("y").value[i]) << i;
    EXPECT_EQ(w[i], expected.at("w").value[i]) << i;
    up += y[i] != w[i];
  }
  EXPECT_GT(up, 100);  // and both ways happen
  EXPECT_LT(up, 1800);
}

}  // namespace
}  // namespace unisono::test
