#pragma once
/// Pooling over windows of any number of axes.

#include "runtime/cpu/ops/tensor.hpp"

namespace unisono::cpu {

/// One entry an axis after images and channels.
struct WindowNd {
  Extents64 kernel, stride, dilation, before, after;
  bool count_pad = false;  ///< average: taps in the padding (not beyond it) count as zeros
};

/// x, y: f32 of shape (N,C,…).
void average_pool_nd(const WindowNd& window, const Strided& x, const Strided& y, const Parallel& parallel);
void max_pool_nd(const WindowNd& window, const Strided& x, const Strided& y, const Parallel& parallel);

/// y (i64): where in x the largest element of the window stands, counted over all of x in row-major order, or with the
/// axes after the channels in column-major order.
void max_pool_indices(const WindowNd& window, bool column_major, const Strided& x, const Strided& y,
                      const Parallel& parallel);

}  // namespace unisono::cpu
