#pragma once
/// Axes that indices name, as kernels' parameters.

#include <cstdint>

#include "tensors/parameters.hpp"
#include "tensors/strided.hpp"

namespace unisono::tensors {

/// The axes of x from `first` on, `count` of them, which tuples of indices name; the indices of a tuple lie `step`
/// elements apart. Slots number the places of these axes row-major.
inline NamedAxes named_axes(const StridedTensor& x, std::size_t first, std::size_t count, const StridedTensor& indices,
                            std::int64_t step) {
  NamedAxes named{};
  named.count = static_cast<u32>(count), named.wide = indices.type.memory == DType::i64 ? 1 : 0, named.step = step;
  std::int64_t slots = 1;
  for (std::size_t d = count; d-- > 0; slots *= x.shape[first + d]) {
    named.extents[d] = x.shape[first + d], named.strides[d] = x.strides[first + d];
    named.slots[d] = slots;
  }
  return named;
}

/// The same by words of so many elements.
inline void count_in_words(NamedAxes& named, std::int64_t elements) {
  for (u32 d = 0; d < named.count; ++d) named.strides[d] /= elements;
}

}  // namespace unisono::tensors
