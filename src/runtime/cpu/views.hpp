#pragma once
/// Checked views of the caller's tensors.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "coda/contraction.hpp"
#include "coda/tensor.hpp"

namespace coda::cpu {

/// Strides of `view`, in elements, after checking it. Throws UserError, with `what` in the message ("operand bias[n]"),
/// if the shape differs from `shape`, the number of strides differs, a stride is negative, the pointer is null, or the
/// dtype is none of `dtypes`.
std::vector<std::int64_t> checked_strides(const ConstTensorView& view, const std::vector<std::int64_t>& shape,
                                          std::span<const DType> dtypes, const std::string& what);

/// Throws UserError if two elements of the view are the same memory (as far as strides alone can tell).
void check_distinct(const ConstTensorView& view, const std::vector<std::int64_t>& strides, const std::string& what);

/// "(2,3,4)"
std::string shape_string(const std::vector<std::int64_t>& shape);

/// Strides of a tensor with axes [m,n]: by image, row of pixels, pixel and column, whatever the layout in memory.
struct PixelStrides {
  std::int64_t image = 0, row = 0, pixel = 0, col = 0;
  bool operator==(const PixelStrides&) const = default;

  /// True if pixel (b, p, q) lies at ((b·height + p)·width + q)·pitch; `extents` of 1 do not count.
  bool uniform(const Extents& e, std::int64_t pitch) const;
};

PixelStrides pixel_strides(const std::vector<std::int64_t>& strides, Layout layout);
/// For (batch, m, n): the matrix row is the row of pixels.
PixelStrides matrix_strides(const std::vector<std::int64_t>& strides);

/// Bytes [first, last) that a view touches.
struct ByteRange {
  const std::byte* first = nullptr;
  const std::byte* last = nullptr;
};
ByteRange byte_range(const ConstTensorView& view, const std::vector<std::int64_t>& strides);

/// True if the two views may share an element. Exact for views whose ranges do not meet and for channel slices of the
/// same pixels (equal strides, both with neighbouring columns); else errs on the side of true.
bool may_overlap(const ConstTensorView& x, const std::vector<std::int64_t>& x_strides, const ConstTensorView& y,
                 const std::vector<std::int64_t>& y_strides);

}  // namespace coda::cpu
