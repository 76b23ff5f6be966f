// An activation that Unisono does not know: Snake, x + sin²(a·x)/a (Ziyin, Hartwig, Ueda, 2020), as a function of the
// user. Its CUDA text becomes part of a GPU kernel, its C++ function serves the CPU.
#include <cstdio>
#include <span>
#include <unisono/unisono.hpp>

#include "random_tensor.hpp"

namespace {

double snake(double x, double a) { return x + std::sin(a * x) * std::sin(a * x) / a; }

unisono::UserFunction snake_function() {
  return {.name = "snake",
          .arity = 2,
          .returns_value = true,
          .cuda_source = "__device__ float snake(float x, float a) { float s = sinf(a * x); return x + s * s / a; }",
          .cpu = [](std::span<const double> x) { return snake(x[0], x[1]); }};
}

int run() {
  const unisono::Graph graph =
      unisono::parse("store snake(acc + bias[n], frequency[n]) as y : f32", {snake_function()});
  const unisono::Conv2d convolution{.n = 2, .h = 9, .w = 11, .c = 8, .k = 24, .layout = unisono::Layout::nhwc};
  const unisono::Executable kernel = unisono::compile(convolution, graph);
  std::puts(kernel.describe().c_str());

  const example::Tensor x = example::normal({2, 9, 11, 8}, 1), w = example::normal({24, 1, 1, 8}, 2);
  const example::Tensor bias = example::normal({24}, 3);
  example::Tensor frequency = example::normal({24}, 4), y({2, 9, 11, 24});
  for (float& f : frequency.values) f = 0.5F + std::abs(f);  // positive, away from zero
  unisono::Arguments arguments;
  arguments.image = x.view();
  arguments.filter = w.view();
  arguments.operands = {{"bias", bias.view()}, {"frequency", frequency.view()}};
  arguments.outputs = {{"y", y.view()}};
  kernel.run(arguments);

  double worst = 0;
  for (std::int64_t pixel = 0; pixel < 2 * 9 * 11; ++pixel) {
    for (std::int64_t k = 0; k < 24; ++k) {
      double v = bias[k];
      for (std::int64_t c = 0; c < 8; ++c) v += x[pixel * 8 + c] * w[k * 8 + c];
      worst = example::worse(worst, y[pixel * 24 + k], snake(v, frequency[k]));
    }
  }
  return example::verdict("y", worst, 1e-4);
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const unisono::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
