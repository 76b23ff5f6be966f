// A program of a user: compiles a matrix product with bias and SiLU and checks one element.
#include <cmath>
#include <cstdio>
#include <unisono/unisono.hpp>
#include <vector>

int main() {
  const unisono::Graph graph = unisono::parse("y = silu(acc + bias[n])\nstore y : f32\n");
  if (unisono::explain_kernel(
          unisono::Gemm{.m = 128, .n = 64, .k = 64, .dtype_a = unisono::DType::bf16, .dtype_b = unisono::DType::bf16},
          unisono::parse("store acc as y : bf16"))
          .source.empty())
    return 1;
  const unisono::Executable kernel = unisono::compile(unisono::Gemm{.m = 2, .n = 3, .k = 4}, graph);
  std::vector<float> a(8, 1.0f), b(12, 0.5f), bias{1, 2, 3}, y(6, -1.0f);
  unisono::Arguments arguments;
  arguments.left = unisono::view(a, {2, 4});
  arguments.right = unisono::view(b, {4, 3});
  arguments.operands["bias"] = unisono::view(bias, {3});
  arguments.outputs["y"] = unisono::view(y, {2, 3});
  kernel.run(arguments);
  const float expected = 5.0f / (1.0f + std::exp(-5.0f));
  std::printf("%f, expected %f\n", y[5], expected);
  return std::abs(y[5] - expected) < 1e-5f ? 0 : 1;
}
