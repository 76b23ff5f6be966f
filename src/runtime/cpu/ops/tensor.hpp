#pragma once
/// Tensors of any element type and rank as the operators that are no contraction see them.

#include <cstdint>
#include <functional>
#include <vector>

#include "runtime/cpu/ops/image.hpp"
#include "support/small_vector.hpp"
#include "unisono/dtype.hpp"
#include "unisono/error.hpp"

namespace unisono::cpu {

/// The axes of a tensor, or of two in one: a reshape walks over those of both.
using Extents64 = support::SmallVector<std::int64_t, 16>;

/// Strides count elements; 0 repeats.
struct Strided {
  void* data = nullptr;
  DType dtype = DType::f32;
  Extents64 shape, strides;
};

inline std::int64_t count_of(const Extents64& shape) {
  std::int64_t n = 1;
  for (const auto e : shape) n *= e;
  return n;
}

/// Row-major strides.
inline Extents64 dense_strides(const Extents64& shape) {
  Extents64 strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

/// Walks an index space in row-major order and keeps the offset of the element at hand.
class Odometer {
 public:
  Odometer(const Extents64& shape, const Extents64& strides) : shape_(shape), strides_(strides), index_(shape.size()) {}
  std::int64_t offset() const { return offset_; }
  void next() {
    for (std::size_t i = shape_.size(); i-- > 0;) {
      offset_ += strides_[i];
      if (++index_[i] < shape_[i]) return;
      offset_ -= strides_[i] * shape_[i];
      index_[i] = 0;
    }
  }
  /// To the element with this number in row-major order.
  void seek(std::int64_t number) {
    offset_ = 0;
    for (std::size_t i = shape_.size(); i-- > 0;) {
      index_[i] = number % shape_[i];
      number /= shape_[i];
      offset_ += index_[i] * strides_[i];
    }
  }

 private:
  const Extents64& shape_;
  const Extents64& strides_;
  Extents64 index_;
  std::int64_t offset_ = 0;
};

/// Calls f.template operator()<T>() with the C++ type of a dtype in which the CPU computes (bool as std::uint8_t).
template <class F>
decltype(auto) with_type(DType t, F&& f) {
#define NUMBER(TYPE) return f.template operator()<TYPE>();
#define UNISONO_DTYPE(NAME, TEXT, KIND, BYTES, BITS, ...) \
  if (t == DType::NAME) {                                 \
    __VA_ARGS__                                           \
  }
#include "support/dtypes.inc"
  throw InternalError("no operator computes in " + std::string(to_string(t)));
}

}  // namespace unisono::cpu
