#pragma once
/// Operators that look at the order of elements along an axis, or at their place in a matrix.

#include "runtime/cpu/ops/tensor.hpp"
#include "runtime/cpu/scratch.hpp"

namespace unisono::cpu {

/// to (i64) = places of the largest (or smallest) elements of x along the axis, as many as `to` is long there, the most
/// extreme first, of equal ones the first first. A NaN is larger than every number. `scratch`: for each thread of
/// top_k_bytes().
void top_k(int axis, bool smallest, const Strided& x, const Strided& to, const Parallel& parallel,
           const OperatorScratch& scratch);
/// `along`: the extent of `to` along the axis.
constexpr std::size_t top_k_bytes(std::int64_t along) {
  return aligned_size(static_cast<std::size_t>(along) * sizeof(std::int64_t));
}

/// Running sums along the axis; floats in float64, each rounded once.
void cumulative_sum(int axis, bool exclusive, bool reverse, const Strided& x, const Strided& to,
                    const Parallel& parallel);

/// The part of each matrix (the last two axes) with column − row >= diagonal, or <= diagonal, and zeros.
void triangle(bool upper, std::int64_t diagonal, const Strided& x, const Strided& to, const Parallel& parallel);

}  // namespace unisono::cpu
