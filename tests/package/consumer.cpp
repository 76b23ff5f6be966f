// A program of a user: compiles a matrix product with bias and SiLU and checks one element.
#include <cmath>
#include <cstdio>
#include <unisono/unisono.hpp>
#include <vector>

int main() {
  const unisono::Graph graph = unisono::parse("y = silu(acc + bias[n])\nstore y : f32\n");
  const unisono::Executable kernel = unisono::compile(unisono::Gemm{.m = 2, .n = 3, .k = 4}, graph);
  std::vector<float> a(8, 1.0f), b(12, 0.5f), bias{1, 2, 3}, y(6, -1.0f);
  unisono::Arguments arguments;
  arguments.a = {a.data(), unisono::DType::f32, {1, 2, 4}, {}};
  arguments.b = {b.data(), unisono::DType::f32, {1, 4, 3}, {}};
  arguments.operands["bias"] = {bias.data(), unisono::DType::f32, {3}, {}};
  arguments.outputs["y"] = {y.data(), unisono::DType::f32, {1, 2, 3}, {}};
  kernel.run(arguments);
  const float expected = 5.0f / (1.0f + std::exp(-5.0f));
  std::printf("%f, expected %f\n", y[5], expected);
  return std::abs(y[5] - expected) < 1e-5f ? 0 : 1;
}
