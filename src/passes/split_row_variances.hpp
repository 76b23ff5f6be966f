#pragma once
#include "unisono/graph.hpp"

namespace unisono::passes {

/// variance(x, over=n) -> mean((x - mean(x))²): two passes over a row, so that a large common offset costs no bits.
Graph split_row_variances(const Graph& graph);

}  // namespace unisono::passes
