#pragma once
/// Resampling of channels-last images, separable, from tables of one axis each.

#include <vector>

#include "runtime/cpu/ops/image.hpp"

namespace unisono::cpu {

/// Where each output pixel of one axis comes from: (1 − weight)·x[low] + weight·x[high].
struct AxisTable {
  std::vector<std::int64_t> low, high;
  std::vector<float> weight;  ///< empty: nearest neighbour, low only
};

/// Output (n,p,q,c) from rows.low/high[p] and columns.low/high[q]. Both tables are nearest or both are linear.
void resize(const AxisTable& rows, const AxisTable& columns, const Image<const float>& x, const Image<float>& y,
            const Parallel& parallel);

}  // namespace unisono::cpu
