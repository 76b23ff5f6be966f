#pragma once
#include "passes/pattern.hpp"
#include "unisono/graph.hpp"

namespace unisono::passes {

/// Recognises activations and other composites that are written out, and puts one operation in their place: fewer
/// instructions, and no overflow or cancellation in between. docs/passes.md lists every row and says where the result
/// may differ by more than rounding.
Graph fuse_operators(const Graph& graph);

const RowTable& fusion_rows();

}  // namespace unisono::passes
