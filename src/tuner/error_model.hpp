#pragma once
/// How far the GPU's kernels may be from float64: docs/numerics.md, docs/cuda-backend.md.

#include "families/interface/plan.hpp"
#include "reference/reference.hpp"
#include "unisono/contraction.hpp"
#include "unisono/graph.hpp"

namespace unisono::tuner {

/// `graph` as it was written. `accurate` as in CompileOptions.
reference::ErrorModel error_model(const Contraction& contraction, const Graph& graph, bool accurate,
                                  const families::Plan::Numerics& numerics);

/// Error of an accumulator, relative to the sum of the absolute values of its products. Tensor cores add sixteen
/// products (of tf32, into which f32 operands are cut off, eight) at once and cut off what lies below the last place:
/// each step is off by 2^-23 at most. Steps of random sign add up to the square root of their number (Higham and Mary,
/// "A new approach to probabilistic rounding error analysis", SIAM J. Sci. Comput. 41, 2019), here with a factor of
/// two.
double accumulator_error(const Contraction& contraction);

}  // namespace unisono::tuner
