#pragma once
/// What every way from a graph to something that runs asks first.

#include "unisono/contraction.hpp"
#include "unisono/graph.hpp"

namespace unisono::ir {

/// verify(), check_products(), check_forms() and check_extent_arithmetic(). Throws as they do.
void check_graph(const Graph& graph, const Contraction& contraction);

}  // namespace unisono::ir
