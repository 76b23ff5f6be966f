#pragma once
/// Checked views of the caller's tensors, wherever their memory is.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "unisono/tensor.hpp"

namespace unisono::runtime {

/// Which signs of strides a view may have: what is read may also lie backwards, from its first element on.
enum class Strides : std::uint8_t { forward, either };

/// Strides of `view`, in elements, after checking it. Throws UserError, with `what` in the message ("operand bias[n]"),
/// if nothing is bound, the shape differs from `shape`, the number of strides differs, a stride is not `allowed` or
/// reaches beyond any memory, the pointer is null (but for no element), or the dtype is none of `dtypes`.
std::vector<std::int64_t> checked_strides(const ConstTensorView& view, const std::vector<std::int64_t>& shape,
                                          std::span<const DType> dtypes, const std::string& what,
                                          Strides allowed = Strides::forward);

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

/// True if the two views share memory. Exact where the strides of each are those of a dense tensor, of a part of one,
/// or of its axes in another order; else it may be true of views that lie between one another.
bool may_overlap(const ConstTensorView& x, const std::vector<std::int64_t>& x_strides, const ConstTensorView& y,
                 const std::vector<std::int64_t>& y_strides);

/// A tensor that a run writes, with its strides.
struct Written {
  ConstTensorView view;
  std::vector<std::int64_t> strides;
  std::string what;  ///< "output y"
};

/// Throws UserError if two elements of an output are the same memory, or two outputs share some.
void check_apart(std::span<const Written> outputs);

}  // namespace unisono::runtime
