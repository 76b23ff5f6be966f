#pragma once
#include "unisono/graph.hpp"

namespace unisono::passes {

/// Removes what no store and no effect needs: unused operands, and for instance a loss of which only the gradient is
/// stored.
Graph prune(const Graph& graph);

/// Puts the nodes in the order in which the stores, then the effects, need them: depth first, inputs before users.
/// Graphs that differ in nothing but their order become the same.
Graph number_nodes(const Graph& graph);

}  // namespace unisono::passes
