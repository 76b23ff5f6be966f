#include "ir/check_graph.hpp"

#include <fmt/format.h>

#include "ir/extent_arithmetic.hpp"
#include "ir/products.hpp"
#include "ir/store_forms.hpp"
#include "unisono/error.hpp"

namespace unisono::ir {

void check_groups(const Graph& graph, std::int64_t columns) {
  for (const Node& x : graph.nodes) {
    const int groups = x.op == Op::operand ? x.axes.groups : x.attr.domain.groups;
    if (groups < 2 || columns % groups == 0) continue;
    const std::string what = x.op == Op::operand ? fmt::format("operand {}{}", x.attr.name, to_string(x.axes))
                                                 : std::string(to_string(x.op));
    throw UserError(fmt::format("{} was given groups={} over {} columns; expected a divisor of {}", what, groups,
                                columns, columns));
  }
}

void check_graph(const Graph& graph, const Contraction& contraction) {
  verify(graph);
  check_groups(graph, extents(contraction).cols);
  check_products(graph, contraction);
  check_forms(graph, contraction);
  check_extent_arithmetic(graph, extents(contraction));
}

}  // namespace unisono::ir
