#pragma once
/// Pooling over windows of channels-last images.

#include <array>

#include "runtime/cpu/ops/image.hpp"

namespace unisono::cpu {

/// Window of output pixel (p,q): rows p·stride[0] − pad_top + r·dilation[0], columns likewise. The output's extents are
/// the caller's choice (ceil mode): taps outside the image do not take part.
struct PoolWindow {
  std::array<std::int64_t, 2> kernel{1, 1}, stride{1, 1}, dilation{1, 1};
  std::array<std::int64_t, 4> pad{0, 0, 0, 0};  ///< top, left, bottom, right
  bool count_pad = false;                       ///< average: taps in the padding (not beyond it) count as zeros
};

/// Largest value of each window. A NaN in the window gives NaN.
void max_pool(const PoolWindow& window, const Image<const float>& x, const Image<float>& y, const Parallel& parallel);

/// Mean of each window, summed in float64.
void average_pool(const PoolWindow& window, const Image<const float>& x, const Image<float>& y,
                  const Parallel& parallel);

/// Mean of each image and channel, summed in float64. y is (images,1,1,channels).
void global_average_pool(const Image<const float>& x, const Image<float>& y, const Parallel& parallel);

}  // namespace unisono::cpu
