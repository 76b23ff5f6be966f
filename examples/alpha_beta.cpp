// D = alpha·A·B + beta·C, as matrix libraries call it, and an activation whose slope and limit are bound the same way.
// One kernel serves all numbers, which change from run to run: by value, or in memory that a pointer leads to.
#include <algorithm>
#include <cstdio>
#include <unisono/unisono.hpp>

#include "random_tensor.hpp"

namespace {

constexpr std::int64_t m = 37, n = 96, k = 80;

struct Numbers {
  float alpha, beta, slope, limit;
};

// Largest error of d against float64
double error_of(const example::Tensor& d, const example::Tensor& a, const example::Tensor& b, const example::Tensor& c,
                const Numbers& with) {
  double worst = 0;
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      double v = 0;
      for (std::int64_t l = 0; l < k; ++l) v += a[i * k + l] * b[l * n + j];
      v = with.alpha * v + with.beta * c[i * n + j];
      worst = example::worse(worst, d[i * n + j], std::min<double>(v > 0 ? v : with.slope * v, with.limit));
    }
  }
  return worst;
}

int run() {
  const unisono::Graph graph = unisono::parse(
      "h = alpha[] * acc + beta[] * c[m,n]\n"
      "store clamp(leaky_relu(h, slope=slope[]), upper=limit[]) as d : f32\n");
  // On a GPU, scalars that are given by pointer are named: CompileOptions::device_scalars = {"alpha", …}
  const unisono::Executable kernel = unisono::compile(unisono::Gemm{.m = m, .n = n, .k = k}, graph);
  std::puts(kernel.describe().c_str());

  const example::Tensor a = example::normal({m, k}, 1), b = example::normal({k, n}, 2), c = example::normal({m, n}, 3);
  example::Tensor d({m, n});
  unisono::Arguments arguments;
  arguments.left = a.view();
  arguments.right = b.view();
  arguments.operands = {{"c", c.view()}};
  arguments.outputs = {{"d", d.view()}};

  constexpr Numbers numbers[] = {{1, 0, 0.01F, 100}, {0.5F, 2, 0, 6}, {-1.5F, 0.25F, -1, 2}};
  double by_value = 0, by_pointer = 0;
  for (const Numbers& x : numbers) {
    arguments.scalars = {{"alpha", x.alpha}, {"beta", x.beta}, {"slope", x.slope}, {"limit", x.limit}};
    kernel.run(arguments);
    by_value = std::max(by_value, error_of(d, a, b, c, x));
  }

  Numbers memory{};
  arguments.scalars.clear();
  arguments.operands["alpha"] = {.data = &memory.alpha};
  arguments.operands["beta"] = {.data = &memory.beta};
  arguments.operands["slope"] = {.data = &memory.slope};
  arguments.operands["limit"] = {.data = &memory.limit};
  for (const Numbers& x : numbers) {
    memory = x;
    kernel.run(arguments);
    by_pointer = std::max(by_pointer, error_of(d, a, b, c, x));
  }
  return example::verdict("by value", by_value, 1e-4) | example::verdict("by pointer", by_pointer, 1e-4);
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
