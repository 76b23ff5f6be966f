#pragma once
/// Reading and writing runs of elements of any storage dtype.

#include <cstddef>
#include <cstdint>

#include "runtime/cpu/vector/unit.hpp"
#include "unisono/dtype.hpp"

namespace unisono::cpu {

/// Address of element `index`.
inline const std::byte* element(const void* data, std::int64_t index, DType t) {
  return static_cast<const std::byte*>(data) + index * static_cast<std::int64_t>(size_of(t));
}
inline std::byte* element(void* data, std::int64_t index, DType t) {
  return static_cast<std::byte*>(data) + index * static_cast<std::int64_t>(size_of(t));
}

/// to[i] = element i·stride of `from`, for i < count. Exact, apart from f64 and i32 to float, which round.
void load_floats(const VectorUnit& unit, const void* from, DType t, std::int64_t stride, std::size_t count, float* to);
void load_doubles(const void* from, DType t, std::int64_t stride, std::size_t count, double* to);

/// Element i·stride of `to` = from[i] rounded once to `t` (support::round_to), for i < count.
void store_floats(const VectorUnit& unit, const float* from, std::size_t count, void* to, DType t, std::int64_t stride);
void store_doubles(const double* from, std::size_t count, void* to, DType t, std::int64_t stride);

}  // namespace unisono::cpu
