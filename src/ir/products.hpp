#pragma once
/// The accumulators of dual products.

#include "unisono/contraction.hpp"
#include "unisono/graph.hpp"

namespace unisono::ir {

inline bool is_accumulator(Op op) { return op == Op::acc || op == Op::acc1; }

/// Throws UserError unless the graph reads as many accumulators as the contraction has.
void check_products(const Graph& graph, const Contraction& contraction);

}  // namespace unisono::ir
