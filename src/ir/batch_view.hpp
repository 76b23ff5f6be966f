#pragma once
/// Matrices of a product without a batch.

#include <cstdint>
#include <vector>

#include "unisono/tensor.hpp"

namespace unisono::ir {

/// The view of a matrix as a batch of one, where `shape` is that of a batch of one; any other view as it is.
ConstTensorView in_batch(const ConstTensorView& view, const std::vector<std::int64_t>& shape);

/// Whether that is another view.
inline bool lacks_batch(const ConstTensorView& view, const std::vector<std::int64_t>& shape) {
  return shape.size() == 3 && shape[0] == 1 && view.shape.size() == 2;
}

}  // namespace unisono::ir
