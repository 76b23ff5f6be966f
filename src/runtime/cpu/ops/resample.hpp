#pragma once
/// Resampling of tensors of any rank, axis by axis.

#include "runtime/cpu/ops/tensor.hpp"

namespace unisono::cpu {

/// One axis: output element i is the sum of weights[k]·x[places[k]] for k in [first[i], first[i + 1]).
struct AxisTaps {
  std::vector<std::int64_t> first{0}, places;
  std::vector<double> weights;
};

/// to = x with these taps along the axes in `axes`, in order; the extents of the others are equal. f32, sums in
/// float64. `scratch`: of resample_bytes(), aligned for float64.
void resample(const std::vector<std::size_t>& axes, const std::vector<AxisTaps>& taps, const Strided& x,
              const Strided& to, const Parallel& parallel, std::byte* scratch);

/// Bytes for what stands between two axes.
std::size_t resample_bytes(const std::vector<std::size_t>& axes, const std::vector<AxisTaps>& taps, const Strided& x);

}  // namespace unisono::cpu
