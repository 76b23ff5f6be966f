#pragma once
#include "unisono/graph.hpp"

namespace unisono::passes {

/// Merges nodes that compute the same: equal operation, dtype, inputs and attributes. Calls of user functions that
/// return a value are pure by contract and merge too; effects never do. So a mean that the user asks for and the one
/// that a normalisation needs become one reduction.
Graph common_subexpressions(const Graph& graph);

}  // namespace unisono::passes
