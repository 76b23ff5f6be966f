// Binary cross entropy of a linear layer, written as papers write it, and its gradient with respect to the logits: one
// kernel computes the product, the loss and the gradient. The program prints what each pass makes of the formula: log
// and sigmoid become logsigmoid and softplus, so that large logits give no infinity.
#include <cstdio>
#include <string>
#include <unisono/unisono.hpp>

#include "random_tensor.hpp"

namespace {

// t is 0 or 1. d/dx of the loss is (sigmoid(x) - t), divided by what the mean divides by.
constexpr const char* formula = R"(
  x = acc + bias[n]
  p = sigmoid(x)
  t = target[m,n]
  loss = mean(-(t * log(p) + (1 - t) * log(1 - p)))
  store loss : f32
  store (p - t) * scale[] as gradient : f32
)";

void print_pass(const std::string& pass, const unisono::Graph& before, const unisono::Graph& after) {
  const bool changed = !unisono::structurally_equal(before, after);
  std::printf("--- %s%s\n%s", pass.c_str(), changed ? "" : " (unchanged)",
              changed ? unisono::print(after).c_str() : "");
}

// The loss by its definition in float64, in the form that does not overflow: max(x, 0) - x·t + ln(1 + e^-|x|)
double loss_of(double x, double t) { return std::max(x, 0.0) - x * t + std::log1p(std::exp(-std::abs(x))); }

int run() {
  constexpr std::int64_t m = 48, n = 20, k = 64;
  const example::Tensor features = example::normal({m, k}, 1), weights = example::normal({k, n}, 2);
  const example::Tensor bias = example::normal({n}, 3);
  example::Tensor target = example::normal({m, n}, 4), loss({}), gradient({m, n});
  for (float& t : target.values) t = t > 0 ? 1.0F : 0.0F;

  unisono::CompileOptions options;
  options.on_pass = print_pass;
  const unisono::Executable kernel =
      unisono::compile(unisono::Gemm{.m = m, .n = n, .k = k}, unisono::parse(formula), options);

  unisono::Arguments arguments;
  arguments.left = features.view();
  arguments.right = weights.view();
  arguments.operands = {{"bias", bias.view()}, {"target", target.view()}};
  arguments.scalars = {{"scale", 1.0 / (m * n)}};
  arguments.outputs = {{"loss", loss.view()}, {"gradient", gradient.view()}};
  kernel.run(arguments);

  double sum = 0, worst = 0;
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      double x = bias[j];
      for (std::int64_t c = 0; c < k; ++c) x += features[i * k + c] * weights[c * n + j];
      const double t = target[i * n + j];
      sum += loss_of(x, t);
      worst = example::worse(worst, gradient[i * n + j], (1 / (1 + std::exp(-x)) - t) / (m * n));
    }
  }
  std::printf("loss %f\n", loss[0]);
  return example::verdict("loss", example::worse(0, loss[0], sum / (m * n)), 1e-5) |
         example::verdict("gradient", worst, 1e-7);
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
