// A 3x3 convolution with bias, GroupNorm and SiLU, written once as text and once with the C++ builder; both are the
// same graph. Runs it on random input and prints what the compiler made of it.
#include <cstdio>
#include <random>
#include <unisono/unisono.hpp>
#include <vector>

namespace {

std::vector<float> random_values(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& v : values) v = normal(random);
  return values;
}

}  // namespace

int main() {
  const unisono::Graph from_text = unisono::parse(R"(
    h = acc + bias[n]
    y = silu(group_norm(h, groups=8, scale=gamma[n], shift=beta[n], eps=1e-5))
    store y : f32
  )");

  unisono::GraphBuilder g;
  const unisono::Value h = g.acc() + g.operand("bias", unisono::axes::n);
  const unisono::Value gamma = g.operand("gamma", unisono::axes::n), beta = g.operand("beta", unisono::axes::n);
  g.store(silu(group_norm(h, {.groups = 8, .scale = gamma, .shift = beta})), unisono::DType::f32, "y");
  const unisono::Graph from_builder = g.build();
  if (!unisono::structurally_equal(from_text, from_builder)) {
    std::puts("the two graphs differ");
    return 1;
  }

  const unisono::Conv2d convolution{.n = 2, .h = 32, .w = 32, .c = 16, .k = 64, .r = 3, .s = 3, .pad = 1};
  const unisono::Executable kernel = unisono::compile(convolution, from_text);
  std::puts(kernel.describe().c_str());

  const std::vector<float> x = random_values(2 * 32 * 32 * 16, 1), w = random_values(64 * 3 * 3 * 16, 2);
  const std::vector<float> bias = random_values(64, 3), scale = random_values(64, 4), shift = random_values(64, 5);
  std::vector<float> y(2 * 32 * 32 * 64);
  unisono::Arguments arguments;
  arguments.image = {x.data(), unisono::DType::f32, {2, 32, 32, 16}, {}};
  arguments.filter = {w.data(), unisono::DType::f32, {64, 3, 3, 16}, {}};
  arguments.operands["bias"] = {bias.data(), unisono::DType::f32, {64}, {}};
  arguments.operands["gamma"] = {scale.data(), unisono::DType::f32, {64}, {}};
  arguments.operands["beta"] = {shift.data(), unisono::DType::f32, {64}, {}};
  arguments.outputs["y"] = {y.data(), unisono::DType::f32, {2, 32, 32, 64}, {}};
  kernel.run(arguments);
  std::printf("y[0] = %f\n", static_cast<double>(y[0]));
  return 0;
}
