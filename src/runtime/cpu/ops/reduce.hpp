#pragma once
/// Reductions over axes of tensors of any type.

#include "runtime/cpu/ops/tensor.hpp"
#include "unisono/network/tensor_operators.hpp"

namespace unisono::cpu {

/// to = x reduced over the axes in which to's extent is 1 and `axes` says so; both have x's rank. Floats are summed in
/// float64 and rounded once; integers wrap.
void reduce(ReduceOp op, const Strided& x, const std::vector<int>& axes, const Strided& to, const Parallel& parallel);

/// to (i64, extent 1 along `axis`) = place of the largest or smallest element along `axis`. A NaN counts as the most
/// extreme. Of equal elements the first, or the last.
void arg_reduce(bool smallest, bool last, int axis, const Strided& x, const Strided& to, const Parallel& parallel);

}  // namespace unisono::cpu
