// A product that adds three tensors, each read once, tile by tile, where the accumulator is: D = ReLU(x·W + R1 + R2 +
// R3).
#include <cstdio>
#include <unisono/unisono.hpp>

#include "random_tensor.hpp"

namespace {

int run() {
  constexpr std::int64_t m = 64, n = 72, k = 40;
  const unisono::Executable kernel = unisono::compile(unisono::Gemm{.m = m, .n = n, .k = k}, unisono::parse(R"(
    store relu(acc + r1[m,n] + r2[m,n] + r3[m,n]) as d : f32
  )"));
  std::puts(kernel.describe().c_str());

  const example::Tensor x = example::normal({m, k}, 1), w = example::normal({k, n}, 2);
  const example::Tensor r1 = example::normal({m, n}, 3), r2 = example::normal({m, n}, 4);
  const example::Tensor r3 = example::normal({m, n}, 5);
  example::Tensor d({m, n});
  unisono::Arguments arguments;
  arguments.left = x.view();
  arguments.right = w.view();
  arguments.operands = {{"r1", r1.view()}, {"r2", r2.view()}, {"r3", r3.view()}};
  arguments.outputs = {{"d", d.view()}};
  kernel.run(arguments);

  double worst = 0;
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      const std::int64_t at = i * n + j;
      double v = r1[at] + r2[at] + r3[at];
      for (std::int64_t c = 0; c < k; ++c) v += x[i * k + c] * w[c * n + j];
      worst = example::worse(worst, d[at], std::max(v, 0.0));
    }
  }
  return example::verdict("d", worst, 1e-4);
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
