#pragma once
#include "unisono/graph.hpp"

namespace unisono::passes {

/// Computes what depends on constants alone, as IEEE arithmetic in the dtype of each node: results of bf16, f16 and
/// tf32 nodes are rounded, those of f32 and f64 nodes are held in float64, as the reference holds them. A folded value
/// of dtype T becomes a bare constant where that changes no user's type (a constant takes the dtype of what it meets),
/// else cast(constant, T). Also drops the branch of a select that a constant condition never takes.
Graph fold_constants(const Graph& graph);

}  // namespace unisono::passes
