#pragma once
#include "passes/pattern.hpp"
#include "unisono/graph.hpp"

namespace unisono::passes {

/// Reductions that need not run over elements, or that another one gives for nothing:
///
/// - over an axis that the value does not vary along: sum is a product with the extent; mean, max, min are the value
/// - sum(a·x) → a·sum(x), for a uniform along the domain; likewise x/a, -x, and mean
/// - sum(square(x)) → sum_squares(x); mean(square(x - mean(x))) and mean(square(x)) - square(mean(x)) → variance(x)
/// - mean(x) → sum(x)/count where sum(x) over the same domain is there as well
/// - sum(one_hot(label), over=n) → 1 for a label within 0 … extent(n) - 1, else 0
Graph eliminate_reductions(const Graph& graph);

const RowTable& reduction_rows();

/// True if a value with these axes is constant along the domain: on each index set that gives one result.
bool is_uniform_along(const Axes& axes, const ReduceDomain& domain);

}  // namespace unisono::passes
