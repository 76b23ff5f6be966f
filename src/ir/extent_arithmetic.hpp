#pragma once
/// Integers that a graph computes from extents alone.

#include "unisono/contraction.hpp"
#include "unisono/graph.hpp"

namespace unisono::ir {

/// Throws UserError where an i32 value that depends on extents and numbers alone, such as extent(m)*extent(m), does not
/// fit 32 bits for a contraction of these extents: it would wrap in every backend.
void check_extent_arithmetic(const Graph& graph, const Extents& extents);

}  // namespace unisono::ir
