#include "ir/products.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "unisono/error.hpp"

namespace unisono {

int product_count(const Graph& graph) {
  return std::ranges::any_of(graph.nodes, [](const Node& x) { return x.op == Op::acc1; }) ? 2 : 1;
}

namespace ir {

void check_products(const Graph& graph, const Contraction& contraction) {
  const int read = product_count(graph), computed = product_count(contraction);
  if (read == computed) return;
  if (read > computed)
    throw UserError(
        fmt::format("the graph reads acc1, the accumulator of a second product, and {} is one; describe a dual product "
                    "or convolution (Gemm or Conv2d with products = 2, and Arguments::right1), or read acc alone",
                    to_string(contraction)));
  throw UserError(
      fmt::format("{} has two products, and the graph reads the first alone; read acc0 and acc1, or describe one "
                  "product (products = 1)",
                  to_string(contraction)));
}

}  // namespace ir

}  // namespace unisono
