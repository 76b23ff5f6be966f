// Scores of attention, twelve matrices at once: softmax(Q·Kᵀ·scale + mask) over each row, in one launch. Q is
// (batch, rows, width) and K (batch, columns, width), so the right operand is transposed.
#include <cstdio>
#include <unisono/unisono.hpp>

#include "random_tensor.hpp"

namespace {

// Element (row, column) of the scores ahead of the softmax; row counts over the whole batch
double score(const example::Tensor& q, const example::Tensor& k, std::int64_t row, std::int64_t batch,
             std::int64_t column, std::int64_t columns, std::int64_t width) {
  double v = 0;
  for (std::int64_t c = 0; c < width; ++c) v += q[row * width + c] * k[(batch * columns + column) * width + c];
  return v / std::sqrt(static_cast<double>(width));
}

int run() {
  constexpr std::int64_t batch = 12, rows = 33, columns = 48, width = 16;
  const unisono::Gemm product{.batch = batch, .m = rows, .n = columns, .k = width, .transpose_b = true};
  const unisono::Executable kernel =
      unisono::compile(product, unisono::parse("store softmax(acc * scale[] + mask[n]) as attention : f32"));
  std::puts(kernel.describe().c_str());

  const example::Tensor q = example::normal({batch, rows, width}, 1), k = example::normal({batch, columns, width}, 2);
  example::Tensor mask = example::normal({columns}, 3), attention({batch, rows, columns});
  mask.values.back() = -INFINITY;  // the last key is padding
  unisono::Arguments arguments;
  arguments.left = q.view();
  arguments.right = k.view();
  arguments.operands = {{"mask", mask.view()}};
  arguments.scalars = {{"scale", 1 / std::sqrt(static_cast<double>(width))}};
  arguments.outputs = {{"attention", attention.view()}};
  kernel.run(arguments);

  double worst = 0;
  for (std::int64_t row = 0; row < batch * rows; ++row) {
    std::vector<double> expected;
    double sum = 0;
    for (std::int64_t j = 0; j < columns; ++j) {
      expected.push_back(std::exp(score(q, k, row, row / rows, j, columns, width) + mask[j]));
      sum += expected.back();
    }
    for (std::int64_t j = 0; j < columns; ++j)
      worst = example::worse(worst, attention[row * columns + j], expected[static_cast<std::size_t>(j)] / sum);
  }
  return example::verdict("attention", worst, 1e-5);
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
