// Operands and results [m,n] that do not lie as the output does: repeated along some coordinates of a row, such as one
// matrix for all of a batch, or with other strides, such as columns side by side. The host gives the steps.
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
    return Dense::load_apart(at, at + place.column * Dense::kElementBytes);
  }
  UNISONO_DEVICE Octet octet(u64 offset) const {
    if (vectors) return Dense::octet(offset);
    const u8* const at = static_cast<const u8*>(Dense::memory) + offset * Dense::kElementBytes;
    const i64 two = 2 * place.column * Dense::kElementBytes;
    const Pair a = pair(at), b = pair(at + two), c = pair(at + 2 * two), d = pair(at + 3 * two);
    return Dense::octet_of(a, b, c, d);
  }
  UNISONO_DEVICE u64 offset(u64, u64 m, int channel) const { return place.offset(int(m), channel); }
};

}  // namespace unisono
