#pragma once
#include "passes/pattern.hpp"
#include "unisono/graph.hpp"

namespace unisono::passes {

/// Writes every normalisation and softmax as reductions and elementwise nodes:
///
///   group_norm and its kin:  (x - mean)·rsqrt(variance + eps)·scale + shift
///   rms_norm:                x·rsqrt(mean(x²) + eps)·scale
///   softmax:                 e·reciprocal(sum(e)),  e = exp(x - max(x))
///   log of a softmax:        (x - max(x)) - log(sum(e)): it does not underflow, and takes one logarithm a row
///
/// The factor of x is gathered where that is cheaper: with axes [b,n], rsqrt(…)·scale is taken once per image and
/// channel instead of once per element. The form x·A + B with B = shift - mean·A is not used: it cancels where |mean|
/// is large.
Graph split_normalisations(const Graph& graph);

const RowTable& softmax_rows();

}  // namespace unisono::passes
