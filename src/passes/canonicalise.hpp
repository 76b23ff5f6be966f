#pragma once
#include "passes/pattern.hpp"
#include "unisono/graph.hpp"

namespace unisono::passes {

/// Brings equal expressions to one spelling, without changing a bit of the result. The normal form:
///
/// - signs stand as far out as they can: (-x)·y → -(x·y), x + (-y) → x - y; of a constant factor, inside it
/// - x - c is x + (-c);  x·x is square(x);  x/2^k is x·2^-k
/// - comparisons have a constant on the right, else the less-than form: c < x → x > c, x > y → y < x
/// - operands of commutative operations: constants last, before them coarser values, else in the order of the graph
/// - casts to the dtype a value has, and detours through a wider dtype, are gone; rounding casts all stay
Graph canonicalise(const Graph& graph);

const RowTable& canonical_rows();

}  // namespace unisono::passes
