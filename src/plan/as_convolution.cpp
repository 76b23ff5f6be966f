#include "plan/as_convolution.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "coda/error.hpp"

namespace coda::plan {
namespace {

Conv2d of_product(const Gemm& g) {
  std::vector<std::string> reasons;
  if (g.transpose_a)
    reasons.push_back("layout: A is (k, m); the kernels read (m, k), rows of k. Store it so, or use the cpu device");
  if (!g.transpose_b)
    reasons.push_back(
        "layout: B is (k, n); the kernels read (n, k), as the weight of a linear layer lies (transpose_b). Transpose "
        "it, "
        "once for constant weights");
  if (g.batch != 1)
    reasons.push_back(
        fmt::format("batch: {} products; the kernels serve one. Compile for one and launch it for each, "
                    "or fold the batch into m if all share B",
                    g.batch));
  if (!reasons.empty())
    throw Unsupported(fmt::format("no kernel serves {}:\n  {}", to_string(Contraction(g)), fmt::join(reasons, "\n  ")));
  return {.n = 1, .h = 1, .w = g.m, .c = g.k, .k = g.n, .dtype_x = g.dtype_a, .dtype_w = g.dtype_b};
}

}  // namespace

Conv2d as_convolution(const Contraction& contraction) {
  if (const auto* conv = std::get_if<Conv2d>(&contraction)) return *conv;
  if (const auto* product = std::get_if<Gemm>(&contraction)) return of_product(*product);
  throw Unsupported(
      fmt::format("no kernel serves {}:\n  transposed convolutions: use Device::cpu", to_string(contraction)));
}

}  // namespace coda::plan
