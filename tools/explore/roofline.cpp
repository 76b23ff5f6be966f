#include "explore/roofline.hpp"

#include <algorithm>
#include <variant>

#include "reference/reference.hpp"
#include "support/dtypes.hpp"

namespace unisono::explore {
namespace {

double bytes_of(const std::vector<std::int64_t>& shape, DType dtype) {
  return static_cast<double>(element_count(shape)) * static_cast<double>(size_of(dtype));
}

}  // namespace

std::pair<DType, DType> factor_dtypes(const Contraction& contraction) {
  return std::visit(
      [](const auto& c) {
        if constexpr (requires { c.dtype_a; })
          return std::pair{c.dtype_a, c.dtype_b};
        else if constexpr (requires { c.dtype_y; })
          return std::pair{c.dtype_y, c.dtype_x};
        else
          return std::pair{c.dtype_x, c.dtype_w};
      },
      contraction);
}

Roofline roofline_of(const Contraction& contraction, const Graph& graph, const plan::Device& device) {
  const auto [a, b] = factor_dtypes(contraction);
  Roofline r{.tflops = device.tensor_tflops / support::matrix_time(a), .tbps = device.memory_tbps};
  r.bytes = bytes_of(shape_a(contraction), a) + bytes_of(shape_b(contraction), b);
  for (const Store& s : graph.stores)
    if (graph[s.value].axes == axes::mn) r.bytes += bytes_of(reference::shape_of(graph, s, contraction), s.dtype);
  r.us = std::max(flop(contraction) / (1e6 * r.tflops), r.bytes / (1e6 * r.tbps));
  return r;
}

}  // namespace unisono::explore
