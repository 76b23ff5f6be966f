#pragma once
/// Moving elements without a look at what they are.

#include <cstddef>
#include <cstdint>

namespace unisono::cpu {

/// Calls f.template operator()<T>() with the unsigned type of this many bytes: 1, 2, 4 or 8.
template <class F>
decltype(auto) with_word(std::size_t size, F&& f) {
  switch (size) {
    case 1: return f.template operator()<std::uint8_t>();
    case 2: return f.template operator()<std::uint16_t>();
    case 4: return f.template operator()<std::uint32_t>();
    default: return f.template operator()<std::uint64_t>();
  }
}

}  // namespace unisono::cpu
