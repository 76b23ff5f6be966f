#include "plan/as_convolution.hpp"

#include <fmt/format.h>

#include "coda/error.hpp"

namespace coda::plan {
namespace {

Lowered of_product(const Gemm& g) {
  Lowered lowered(
      Conv2d{.n = g.batch, .h = 1, .w = g.m, .c = g.k, .k = g.n, .dtype_x = g.dtype_a, .dtype_w = g.dtype_b});
  lowered.columns_a = g.transpose_a;
  lowered.columns_b = !g.transpose_b;
  lowered.batched = g.batch > 1;
  return lowered;
}

}  // namespace

Lowered as_convolution(const Contraction& contraction) {
  if (const auto* conv = std::get_if<Conv2d>(&contraction)) return *conv;
  if (const auto* product = std::get_if<Gemm>(&contraction)) return of_product(*product);
  throw Unsupported(
      fmt::format("no kernel serves {}:\n  transposed convolutions: use Device::cpu", to_string(contraction)));
}

}  // namespace coda::plan
