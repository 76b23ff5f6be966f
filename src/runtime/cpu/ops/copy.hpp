#pragma once
/// Moving elements: transposition, concatenation, padding, broadcast and changes of layout are strided copies.

#include <cstdint>
#include <vector>

#include "runtime/cpu/ops/image.hpp"

namespace coda::cpu {

using Extents64 = std::vector<std::int64_t>;

/// to[i·to_strides] = from[i·from_strides] for every index i of `shape` (elements; a stride of 0 in `from` broadcasts).
/// The two must not overlap.
void copy(const Extents64& shape, const float* from, const Extents64& from_strides, float* to,
          const Extents64& to_strides, const Parallel& parallel);

/// The k-th element of `from` in row-major order of from_shape becomes the k-th of `to` in row-major order of to_shape.
void copy_reshaped(const Extents64& from_shape, const float* from, const Extents64& from_strides,
                   const Extents64& to_shape, float* to, const Extents64& to_strides);

void fill(const Extents64& shape, float value, float* to, const Extents64& to_strides, const Parallel& parallel);

}  // namespace coda::cpu
