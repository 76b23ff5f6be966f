#pragma once
/// What every way from a graph to something that runs asks first.

#include "unisono/contraction.hpp"
#include "unisono/graph.hpp"

namespace unisono::ir {

/// Throws UserError if groups of columns do not divide them, and says of which node.
void check_groups(const Graph& graph, std::int64_t columns);

/// verify(), check_groups(), check_products(), check_forms() and check_extent_arithmetic(). Throws as they do.
void check_graph(const Graph& graph, const Contraction& contraction);

}  // namespace unisono::ir
