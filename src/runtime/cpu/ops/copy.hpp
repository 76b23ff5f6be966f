#pragma once
/// Moving elements: transposition, concatenation, padding, broadcast and changes of layout are strided copies.

#include <cstdint>
#include <vector>

#include "runtime/cpu/ops/image.hpp"
#include "runtime/cpu/ops/tensor.hpp"

namespace unisono::cpu {

/// to[i·to_strides] = from[i·from_strides] for every index i of `shape` (elements; a stride of 0 in `from` broadcasts).
/// The two must not overlap.
void copy(const Extents64& shape, const float* from, const Extents64& from_strides, float* to,
          const Extents64& to_strides, const Parallel& parallel);

/// The same for elements of `size` bytes (1, 2, 4 or 8), aligned to it.
void copy_elements(std::size_t size, const Extents64& shape, const void* from, const Extents64& from_strides, void* to,
                   const Extents64& to_strides, const Parallel& parallel);

/// The k-th element of `from` in row-major order of from_shape becomes the k-th of `to` in row-major order of to_shape.
void copy_reshaped(std::size_t size, const Extents64& from_shape, const void* from, const Extents64& from_strides,
                   const Extents64& to_shape, void* to, const Extents64& to_strides, const Parallel& parallel);

}  // namespace unisono::cpu
