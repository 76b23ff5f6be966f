#pragma once
/// Checked views of the caller's tensors, wherever their memory is.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "unisono/tensor.hpp"

namespace unisono::runtime {

/// Strides of `view`, in elements, after checking it. Throws UserError, with `what` in the message ("operand bias[n]"),
/// if nothing is bound, the shape differs from `shape`, the number of strides differs, a stride is negative, the
/// pointer is null, or the dtype is none of `dtypes`.
std::vector<std::int64_t> checked_strides(const ConstTensorView& view, const std::vector<std::int64_t>& shape,
                                          std::span<const DType> dtypes, const std::string& what);

/// Throws UserError if two elements of the view are the same memory (as far as strides alone can tell).
void check_distinct(const ConstTensorView& view, const std::vector<std::int64_t>& strides, const std::string& what);

/// "(2,3,4)"
std::string shape_string(const std::vector<std::int64_t>& shape);

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

}  // namespace unisono::runtime
