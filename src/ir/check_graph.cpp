#include "ir/check_graph.hpp"

#include "ir/extent_arithmetic.hpp"
#include "ir/products.hpp"
#include "ir/store_forms.hpp"

namespace unisono::ir {

void check_graph(const Graph& graph, const Contraction& contraction) {
  verify(graph);
  check_products(graph, contraction);
  check_forms(graph, contraction);
  check_extent_arithmetic(graph, extents(contraction));
}

}  // namespace unisono::ir
