#pragma once
#include "passes/pattern.hpp"
#include "unisono/graph.hpp"

namespace unisono::passes {

/// Binary cross entropy of a target t and a logit x. After fuse_operators the formula of the papers,
///   -(t·log(p) + (1 - t)·log(1 - p)),  p = sigmoid(x),
/// reads (1 - t)·softplus(x) - t·logsigmoid(x). With softplus(x) = relu(x) - logsigmoid(|x|) and
/// logsigmoid(x) = x - softplus(x), the logarithm factors out:
///   (relu(x) - t·x) - logsigmoid(|x|)
/// which equals (1 - t)·x - logsigmoid(x) but cancels nowhere: for t = 0 or 1 the relative error is a few units
/// whatever x is. One exponential and one logarithm are left of the two each.
///
/// Where the two halves are summed apart, their reductions are brought together first (sum(a) - sum(b) → sum(a - b)).
Graph factor_cross_entropy(const Graph& graph);

const RowTable& cross_entropy_rows();

}  // namespace unisono::passes
