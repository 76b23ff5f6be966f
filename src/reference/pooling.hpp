#pragma once
/// Maximum and average pooling in float64.

#include <array>

#include "reference/reference.hpp"
#include "unisono/contraction.hpp"

namespace unisono::reference {

/// Windows of `kernel` taps, `dilation` apart, every `stride` pixels of the image padded by `pad`.
///
/// Outputs: P = (H + pad_top + pad_bottom − dilation_h·(kernel_h − 1) − 1)/stride_h + 1, rounded down or, with
/// ceil_mode, up; then a last window that would start beyond image and top padding is dropped (as in PyTorch and ONNX).
///
/// The maximum is over the pixels inside the image. The average divides by the number of pixels inside the image or,
/// with count_pad, by the number of taps inside the padded image (those that only ceil_mode adds never count).
struct Pool2d {
  enum class Kind : std::uint8_t { max, average };
  Kind kind = Kind::max;
  std::array<std::int64_t, 2> kernel{1, 1};
  std::array<std::int64_t, 2> stride{1, 1};
  std::array<std::int64_t, 4> pad{0, 0, 0, 0};  ///< top, left, bottom, right
  std::array<std::int64_t, 2> dilation{1, 1};
  bool ceil_mode = false;
  bool count_pad = false;
  Layout layout = Layout::nhwc;  ///< the input's
};

/// {P, Q} for an image of h·w pixels. Throws UserError for a field out of range or an empty output.
std::array<std::int64_t, 2> pooled_size(const Pool2d& pool, std::int64_t h, std::int64_t w);

/// Pools `x`, (N,H,W,C) or (N,C,H,W) after pool.layout. The result has axes [m,n]: rows (N,P,Q), columns C. A NaN in a
/// window makes its maximum NaN. Throws UserError as pooled_size does, and for a window without a pixel.
Values pool(const Pool2d& pool, const ConstTensorView& x, const ErrorModel& model = {});

}  // namespace unisono::reference
