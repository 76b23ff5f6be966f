#pragma once
/// Reductions over axes of tensors of any type.

#include "plan/expected.hpp"
#include "tensors/launch.hpp"
#include "tensors/strided.hpp"
#include "unisono/network/tensor_operators.hpp"

namespace unisono::tensors {

/// Tensors are 0: x, 1: to, with x's rank or without the reduced axes. Floats are folded in float64 and rounded once.
/// What is folded together, and in which order, depends on the extents and strides alone.
plan::Expected<Launches> reduce(const operators::Reduce& op, const StridedTensor& x, const StridedTensor& to);

/// to is i64.
plan::Expected<Launches> arg_reduce(const operators::ArgReduce& op, const StridedTensor& x, const StridedTensor& to);

}  // namespace unisono::tensors
