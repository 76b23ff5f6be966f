// Loads and stores of several words that lie together.
#pragma once
#include "unisono/ptx/types.cuh"

namespace unisono {

// This many bytes that lie together, aligned to their number or to 16.
template <int kBytes>
struct Bundle {
  static constexpr int kWords = larger(1, kBytes / 4);
  static_assert(kBytes == 2 || kBytes == 4 || kBytes == 8 || kBytes % 16 == 0, "what one or several loads bring");
  u32 word[kWords];

  static UNISONO_DEVICE Bundle load(const void* from) {
    Bundle b;
    if constexpr (kBytes == 2)
      b.word[0] = __ldg(static_cast<const u16*>(from));
    else if constexpr (kBytes == 4)
      b.word[0] = __ldg(static_cast<const u32*>(from));
    else if constexpr (kBytes == 8) {
      const uint2 both = __ldg(static_cast<const uint2*>(from));
      b.word[0] = both.x, b.word[1] = both.y;
    } else {
#pragma unroll
      for (int i = 0; i < kBytes / 16; ++i) {
        const uint4 four = __ldg(static_cast<const uint4*>(from) + i);
        b.word[4 * i] = four.x, b.word[4 * i + 1] = four.y, b.word[4 * i + 2] = four.z, b.word[4 * i + 3] = four.w;
      }
    }
    return b;
  }
  UNISONO_DEVICE void store(void* to) const {
    if constexpr (kBytes == 4)
      *static_cast<u32*>(to) = word[0];
    else if constexpr (kBytes == 8)
      *static_cast<uint2*>(to) = {word[0], word[1]};
    else {
#pragma unroll
      for (int i = 0; i < kBytes / 16; ++i)
        static_cast<uint4*>(to)[i] = {word[4 * i], word[4 * i + 1], word[4 * i + 2], word[4 * i + 3]};
    }
  }
};

}  // namespace unisono
