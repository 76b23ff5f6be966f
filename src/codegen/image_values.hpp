#pragma once
/// Values of a graph over a tensor that are the same in all rows of an image.

#include <vector>

#include "unisono/graph.hpp"

namespace unisono::codegen {

/// Those that the stores need: a thread computes them once for its channels, as long as there are registers for them.
std::vector<ValueId> values_of_images(const Graph& graph);

}  // namespace unisono::codegen
