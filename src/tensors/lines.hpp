#pragma once
/// Running sums, and the places of the most extreme elements, along an axis.

#include "plan/expected.hpp"
#include "tensors/launch.hpp"
#include "tensors/strided.hpp"
#include "unisono/network/index_operators.hpp"

namespace unisono::tensors {

/// Tensors are 0: x, 1: to, of one type in memory. Floats are summed in float64.
plan::Expected<Launches> cumulative_sum(const operators::CumulativeSum& op, const StridedTensor& x,
                                        const StridedTensor& to);

/// to is i64; its extent along the axis says how many places are wanted. Every element is compared with every other of
/// its line: refuses lines that are too long for that.
plan::Expected<Launches> top_k(const operators::TopK& op, const StridedTensor& x, const StridedTensor& to);

}  // namespace unisono::tensors
