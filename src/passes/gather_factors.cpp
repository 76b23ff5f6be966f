#include "passes/gather_factors.hpp"

#include <utility>

#include "passes/canonicalise.hpp"
#include "passes/editor.hpp"
#include "passes/prune.hpp"

namespace unisono::passes {

namespace {

bool factors_are_coarser(const Match& m) {
  const Axes& all = m.root_node().axes;
  return m.node(0).axes == all && join(m.node(1).axes, m.node(2).axes) != all;
}

std::vector<Row> product_rows() {
  const Pattern x = any(0), y = any(1), z = any(2), w = any(3);
  return {
      {"x*y*z -> x*(y*z), y and z coarser", x * y * z, x * (y * z), Dtypes::wide, factors_are_coarser},
      {"fma(x*y, z, w) -> fma(x, y*z, w), y and z coarser", fma(x * y, z, w), fma(x, y * z, w), Dtypes::wide,
       factors_are_coarser},
  };
}

}  // namespace

const RowTable& factor_rows() {
  static const RowTable table({product_rows()});
  return table;
}

Graph gather_factors(const Graph& graph) {
  Editor g(graph);
  if (!apply(factor_rows(), g)) return graph;
  return number_nodes(canonicalise(std::move(g).finish()));
}

}  // namespace unisono::passes
