#pragma once
/// Index spaces of the float64 reference: plain loops over dense row-major tensors.

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "reference/network/tensor64.hpp"

namespace unisono::float64 {

using Extents64 = std::vector<std::int64_t>;
using ReferenceInputs = std::vector<const Tensor64*>;

inline constexpr double f32_roundoff = 0x1p-24;
inline constexpr double no_claim = std::numeric_limits<double>::infinity();  // a bound
/// What a result of f32 may be off where its normal range ends.
inline constexpr double f32_underflow = std::numeric_limits<float>::min();

/// The bound of a result whose terms, or part of them, may add up to `sizes`: none where f32 overflows on the way
/// to a result that it has.
inline double bound_within(double bound, double value, double sizes, DType t) {
  constexpr double largest = std::numeric_limits<float>::max();
  if (!std::isfinite(value)) return 0;  // which infinities and NaN among the inputs make
  return t != DType::f64 && !(sizes <= largest) && std::abs(value) <= largest * (1 + 1e-5) ? no_claim : bound;
}

/// Zeros, without error.
Tensor64 empty_tensor(Extents64 shape);

/// Calls visit(index of the output, index of the input) for all elements of `shape`, where the input has these strides
/// (0 along axes that it repeats) and starts at `offset`.
template <class Visit>
void walk(const Extents64& shape, const Extents64& strides, std::int64_t offset, const Visit& visit) {
  Extents64 index(shape.size(), 0);
  std::int64_t from = offset;
  const std::int64_t count = element_count(shape);
  for (std::int64_t to = 0; to < count; ++to) {
    visit(static_cast<std::size_t>(to), static_cast<std::size_t>(from));
    for (std::size_t d = shape.size(); d-- > 0;) {
      from += strides[d];
      if (++index[d] < shape[d]) break;
      from -= strides[d] * shape[d];
      index[d] = 0;
    }
  }
}

/// Calls visit(index) for all indices of `shape`, the last axis fastest.
template <class Visit>
void for_indices(const Extents64& shape, const Visit& visit) {
  Extents64 index(shape.size(), 0);
  const std::int64_t count = element_count(shape);
  for (std::int64_t i = 0; i < count; ++i) {
    visit(index);
    for (std::size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
}

/// Offset of an index in a row-major tensor of this shape.
inline std::size_t place(const Extents64& shape, const Extents64& index) {
  std::int64_t at = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) at = at * shape[d] + index[d];
  return static_cast<std::size_t>(at);
}

/// As NumPy: extents are aligned at the end, and 1 repeats.
Extents64 broadcast_shape(const ReferenceInputs& inputs);

/// The values, repeated to a shape.
std::vector<double> expanded(const Tensor64& x, const Extents64& shape);

/// The same elements in another shape.
Tensor64 reshaped(const Tensor64& x, Extents64 shape);

}  // namespace unisono::float64
