// Operands and results [m,n] that do not lie as the output does: repeated along some coordinates of a row, such as one
// matrix for all of a batch, or with strides of their own, such as columns side by side. The host gives the steps.
#pragma once
#include "unisono/epilogue/visitor.cuh"
#include "unisono/params/params.cuh"

namespace unisono {

// Where row m of all images has its elements. Steps count elements; 0 along what the tensor is repeated over.
struct Place {
  int height, width;
  i64 image, row, pixel, column;
  UNISONO_DEVICE u64 offset(int m, int channel) const {
    const int line = m / width;
    return u64(i64(line / height) * image + i64(line % height) * row + i64(m % width) * pixel + i64(channel) * column);
  }
};

// `vectors`: neighbouring channels lie side by side, and eight of them as one load takes them.
template <class Element>
struct PlacedSource : TensorSource<Element> {
  using Dense = TensorSource<Element>;
  using Pair = typename Dense::Pair;
  using Octet = typename Dense::Octet;
  static constexpr bool kPlaced = true;
  Place place;
  bool vectors;

  // Two neighbours, the first at `at` in memory.
  UNISONO_DEVICE Pair pair(const u8* at) const {
    if (vectors) return Dense::load(at);
    const u8* const next = at + place.column * Dense::kElementBytes;
    if constexpr (Dense::kElementBytes == 4)
      return {__ldg(reinterpret_cast<const float*>(at)), __ldg(reinterpret_cast<const float*>(next))};
    else if constexpr (Dense::kElementBytes == 2)
      return u32(__ldg(reinterpret_cast<const u16*>(at))) | u32(__ldg(reinterpret_cast<const u16*>(next))) << 16;
    else
      return u32(__ldg(at)) | u32(__ldg(next)) << 8;
  }
  UNISONO_DEVICE Octet octet(u64 offset) const {
    if (vectors) return Dense::octet(offset);
    const u8* const at = static_cast<const u8*>(Dense::memory) + offset * Dense::kElementBytes;
    const i64 two = 2 * place.column * Dense::kElementBytes;
    const Pair a = pair(at), b = pair(at + two), c = pair(at + 2 * two), d = pair(at + 3 * two);
    if constexpr (Dense::kElementBytes == 4)
      return {{a.x, a.y, b.x, b.y}, {c.x, c.y, d.x, d.y}};
    else if constexpr (Dense::kElementBytes == 2)
      return {{a, b, c, d}};
    else
      return {{a | b << 16, c | d << 16}};
  }
};

}  // namespace unisono
