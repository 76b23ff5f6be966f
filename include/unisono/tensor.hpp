#pragma once
/// Views of memory that the caller owns.

#include <cstdint>
#include <vector>

#include "unisono/dtype.hpp"

namespace unisono {

/// A read-only strided view. Shapes and strides count elements; empty strides mean row-major and dense.
struct ConstTensorView {
  const void* data = nullptr;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape = {};
  std::vector<std::int64_t> strides = {};
};

/// A writable strided view.
struct TensorView {
  void* data = nullptr;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape = {};
  std::vector<std::int64_t> strides = {};

  operator ConstTensorView() const { return {data, dtype, shape, strides}; }
};

/// Returns the product of the extents; 1 for a scalar. Throws UserError for a negative extent and on overflow.
std::int64_t element_count(const std::vector<std::int64_t>& shape);

/// Returns the strides of a dense row-major tensor. Throws UserError on overflow, even if another extent is 0.
std::vector<std::int64_t> row_major_strides(const std::vector<std::int64_t>& shape);

}  // namespace unisono
