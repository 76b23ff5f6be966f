#pragma once
/// Elementwise operators on tensors of any type.

#include <span>

#include "runtime/cpu/ops/tensor.hpp"
#include "unisono/network/tensor_operators.hpp"

namespace unisono::cpu {

/// to[i] = op(inputs[i]…) for every index of to.shape; the inputs' strides are 0 where they broadcast. All have to's
/// shape. Throws UserError for an integer division by zero.
void map(MapOp op, std::span<const Strided> inputs, const Strided& to, const Parallel& parallel);

}  // namespace unisono::cpu
