#pragma once
/// Operators whose elements or slices are named by indices (i32 or i64, negative ones count from the end). All throw
/// UserError for an index that is not in [-extent, extent) of its axis.

#include <string>

#include "runtime/cpu/ops/tensor.hpp"
#include "unisono/network/index_operators.hpp"

namespace unisono::cpu {

/// The element of an i32 or i64 tensor at an offset.
inline std::int64_t index_at(const Strided& indices, std::int64_t offset) {
  return indices.dtype == DType::i32 ? static_cast<const std::int32_t*>(indices.data)[offset]
                                     : static_cast<const std::int64_t*>(indices.data)[offset];
}

/// The place that an index names on an axis.
inline std::int64_t checked_place(std::int64_t index, std::int64_t extent) {
  if (index < -extent || index >= extent)
    throw UserError("index " + std::to_string(index) + " is outside an axis of extent " + std::to_string(extent));
  return index < 0 ? index + extent : index;
}

/// See operators::GatherElements; to has the shape of the indices.
void gather_elements(int axis, const Strided& x, const Strided& indices, const Strided& to, const Parallel& parallel);

/// See operators::GatherND.
void gather_nd(int batch, const Strided& x, const Strided& indices, const Strided& to, const Parallel& parallel);

/// See operators::ScatterElements; `to` holds the elements of x.
void scatter_elements(int axis, ScatterReduction reduction, const Strided& indices, const Strided& updates,
                      const Strided& to, const Parallel& parallel);

/// See operators::ScatterND; `to` holds the elements of x.
void scatter_nd(ScatterReduction reduction, const Strided& indices, const Strided& updates, const Strided& to,
                const Parallel& parallel);

}  // namespace unisono::cpu
