#pragma once
/// How a tensor with axes [m,n] stands in memory.

#include <cstdint>
#include <vector>

#include "runtime/common/views.hpp"
#include "unisono/contraction.hpp"

namespace unisono::cpu {

using runtime::byte_range;
using runtime::ByteRange;
using runtime::check_distinct;
using runtime::checked_strides;
using runtime::may_overlap;
using runtime::shape_string;

/// Strides of a tensor with axes [m,n]: by image, row of pixels, pixel and column, whatever the layout in memory.
struct PixelStrides {
  std::int64_t image = 0, row = 0, pixel = 0, col = 0;
  bool operator==(const PixelStrides&) const = default;

  /// True if pixel (b, p, q) lies at ((b·height + p)·width + q)·pitch; `extents` of 1 do not count.
  bool uniform(const Extents& e, std::int64_t pitch) const;
};

PixelStrides pixel_strides(const std::vector<std::int64_t>& strides, Layout layout);
/// For an image as above, or the planes of a volume (N,D,H,W,C), which are `plane` apart.
struct PlaneStrides {
  PixelStrides pixels;
  std::int64_t plane = 0;
};
PlaneStrides plane_strides(const std::vector<std::int64_t>& strides, Layout layout);
/// For (N,O,P,Q,K), whose planes count as O·P rows of an image. Throws UserError where a plane does not follow the one
/// before as a row does.
PixelStrides volume_strides(const std::vector<std::int64_t>& strides, const std::vector<std::int64_t>& shape);
/// For (batch, m, n): the matrix row is the row of pixels.
PixelStrides matrix_strides(const std::vector<std::int64_t>& strides);

}  // namespace unisono::cpu
