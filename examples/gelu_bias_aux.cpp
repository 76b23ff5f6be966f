// GELU(x·W + bias) of a linear layer, with the value ahead of the activation as a second store ("auxiliary output"):
// what the backward pass of the activation reads. One kernel writes both.
#include <cstdio>
#include <unisono/unisono.hpp>

#include "random_tensor.hpp"

namespace {

int run() {
  constexpr std::int64_t m = 37, n = 96, k = 80;
  unisono::GraphBuilder g;
  const unisono::Value h = g.acc() + g.operand("bias", unisono::axes::n);
  g.store(gelu(h), unisono::DType::f32, "y");
  g.store(h, unisono::DType::f32, "aux");

  // W is (n, k), as PyTorch keeps the weights of a linear layer
  const unisono::Executable kernel =
      unisono::compile(unisono::Gemm{.m = m, .n = n, .k = k, .transpose_b = true}, g.build());
  std::puts(kernel.describe().c_str());

  const example::Tensor x = example::normal({m, k}, 1), w = example::normal({n, k}, 2);
  const example::Tensor bias = example::normal({n}, 3);
  example::Tensor y({m, n}), aux({m, n});
  unisono::Arguments arguments;
  arguments.left = x.view();
  arguments.right = w.view();
  arguments.operands = {{"bias", bias.view()}};
  arguments.outputs = {{"y", y.view()}, {"aux", aux.view()}};
  kernel.run(arguments);

  double worst_y = 0, worst_aux = 0;
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      double v = bias[j];
      for (std::int64_t c = 0; c < k; ++c) v += x[i * k + c] * w[j * k + c];
      worst_aux = example::worse(worst_aux, aux[i * n + j], v);
      worst_y = example::worse(worst_y, y[i * n + j], v * 0.5 * std::erfc(-v / std::sqrt(2.0)));
    }
  }
  return example::verdict("y", worst_y, 1e-4) | example::verdict("aux", worst_aux, 1e-4);
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
