#include "passes/fuse_multiply_add.hpp"

#include <utility>

#include "passes/editor.hpp"

namespace unisono::passes {

namespace {

bool varies_fully(const Match& m, const Axes& a) { return a == m.root_node().axes; }

// x·y is as fine as the result
bool product_is_full(const Match& m) { return varies_fully(m, join(m.node(0).axes, m.node(1).axes)); }
bool square_is_full(const Match& m) { return varies_fully(m, m.node(0).axes); }
// … and the sign goes to slot 1, which has fewer elements
bool sign_on_factor(const Match& m) { return product_is_full(m) && !varies_fully(m, m.node(1).axes); }
bool factor_is_coarser(const Match& m) { return !varies_fully(m, m.node(1).axes); }

double negated_factor(const Match& m) { return -m.number(3); }

std::vector<Row> rows() {
  const Pattern x = any(0), y = any(1), z = any(2), c = number(3);
  return {
      {"x*y + z -> fma(x, y, z)", x * y + z, fma(x, y, z), Dtypes::wide, product_is_full},
      {"square(x) + z -> fma(x, x, z)", square(x) + z, fma(x, x, z), Dtypes::wide, square_is_full},
      {"z - x*c -> fma(x, -c, z)", z - x * c, fma(x, computed(negated_factor), z), Dtypes::wide, square_is_full},
      {"z - x*y -> fma(x, -y, z), y coarser", z - x * y, fma(x, -y, z), Dtypes::wide, sign_on_factor},
      {"z - x*y -> fma(x, -y, z)", z - x * y, fma(x, -y, z), Dtypes::wide, product_is_full},
      {"x*y - z -> fma(x, y, -z)", x * y - z, fma(x, y, -z), Dtypes::wide, product_is_full},
      {"-(x*y) -> x*(-y), y coarser", -(x * y), x * -y, Dtypes::floats, factor_is_coarser},
  };
}

}  // namespace

const RowTable& multiply_add_rows() {
  static const RowTable table({rows()});
  return table;
}

Graph fuse_multiply_add(const Graph& graph) {
  Editor g(graph);
  apply(multiply_add_rows(), g);
  return std::move(g).finish();
}

}  // namespace unisono::passes
