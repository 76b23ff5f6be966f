#pragma once
/// Copies between orders of memory, for what is done once: the CPU's operators have faster ones.

#include <cstddef>
#include <cstring>

#include "network/storage.hpp"

namespace unisono::network {

/// Calls visit(source, target) for each element, with its place in two tensors of this shape; strides and places count
/// elements.
template <class Visit>
void walk_strided(const Sizes& shape, const Sizes& from_strides, const Sizes& to_strides, const Visit& visit) {
  const std::int64_t count = element_count(shape);
  Sizes index(shape.size(), 0);
  std::int64_t source = 0, target = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    visit(source, target);
    for (std::size_t d = shape.size(); d-- > 0;) {
      source += from_strides[d], target += to_strides[d];
      if (++index[d] < shape[d]) break;
      source -= from_strides[d] * shape[d], target -= to_strides[d] * shape[d];
      index[d] = 0;
    }
  }
}

/// Elements of `size` bytes; strides count elements.
inline void copy_strided(std::size_t size, const Sizes& shape, const void* from, const Sizes& from_strides, void* to,
                         const Sizes& to_strides) {
  const auto bytes = static_cast<std::int64_t>(size);
  walk_strided(shape, from_strides, to_strides, [&](std::int64_t source, std::int64_t target) {
    std::memcpy(static_cast<std::byte*>(to) + target * bytes, static_cast<const std::byte*>(from) + source * bytes,
                size);
  });
}

}  // namespace unisono::network
