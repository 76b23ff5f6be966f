#pragma once
#include "passes/pattern.hpp"
#include "unisono/graph.hpp"

namespace unisono::passes {

/// a·b + c → fma(a, b, c): one instruction and one rounding less. Only where the product has the axes of the sum, else
/// it is computed fewer times by itself, and only in f32 and f64: in the shorter types the product is rounded by
/// request. A remaining sign goes to the factor with the fewest elements.
Graph fuse_multiply_add(const Graph& graph);

const RowTable& multiply_add_rows();

}  // namespace unisono::passes
