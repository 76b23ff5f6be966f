#pragma once
/// Every operator of a network in float64.

#include <vector>

#include "reference/network/index.hpp"
#include "unisono/network.hpp"

namespace unisono::float64 {

/// The operator's result on these inputs, with a bound on the error of an implementation that computes this operator in
/// f32 on the same inputs. Contractions, elementwise operations and normalisations are those of unisono::reference.
Tensor64 evaluate_operator(const OperatorKind& kind, const std::vector<const Tensor64*>& inputs);

}  // namespace unisono::float64
