#pragma once
/// Tensors as the kernels of this folder see them.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "unisono/dtype.hpp"
#include "unisono/tensor.hpp"

namespace unisono::tensors {

using Extents = std::vector<std::int64_t>;

/// The dtype of a network's tensor, and that in which its elements lie in memory: the same, but that f32 may lie as
/// bf16 or f16.
struct ElementType {
  DType value = DType::f32, memory = DType::f32;
  bool operator==(const ElementType&) const = default;
};

/// A type that lies in memory as it is.
constexpr ElementType stored(DType t) { return {t, t}; }

/// Strides and the offset of element (0, 0, …) count elements; a stride of 0 repeats.
struct StridedTensor {
  ElementType type;
  Extents shape, strides;
  std::int64_t offset = 0;
  /// Bytes to which its memory is aligned in every run; that of its elements is taken for granted.
  std::size_t alignment = 1;
};

/// Bytes from the beginning of its memory to its first element.
inline std::int64_t start_of(const StridedTensor& x) {
  return x.offset * static_cast<std::int64_t>(size_of(x.type.memory));
}

/// The same memory as a result of this shape walks over it: axes of extent 1 repeat, as do those that it lacks in
/// front.
StridedTensor broadcast(StridedTensor x, const Extents& shape);

}  // namespace unisono::tensors
