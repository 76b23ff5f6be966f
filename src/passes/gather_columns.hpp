#pragma once
#include "unisono/graph.hpp"

namespace unisono::passes {

/// element + column + column -> element + (column + column): columns are added once a tile, not once an element. May
/// reassociate. What it changes, a rounding of the columns' sum in place of one of the element's, is below the
/// accumulator's own bound: where the first is larger, the element is as large as that sum.
Graph gather_columns(const Graph& graph);

}  // namespace unisono::passes
