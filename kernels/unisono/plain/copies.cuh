// Copies of strided tensors, with padding, and reshapes.
#pragma once
#include "unisono/params/plain_params.cuh"
#include "unisono/ptx/grid.cuh"
#include "unisono/ptx/types.cuh"

namespace unisono::plain {

UNISONO_DEVICE u16 filling(u32 value, u16) { return u16(value); }
UNISONO_DEVICE uint4 filling(u32 value, uint4) {
  const u32 pair = value | value << 16;
  return {pair, pair, pair, pair};
}

template <class Unit>
UNISONO_DEVICE void copy(const CopyParams& p) {
  for (u64 i = first_index(); i < p.count; i += index_step()) {
    u32 rest = u32(i);
    i64 from = 0, to = 0;
    bool inside = true;
#pragma unroll
    for (int d = kCopyRank - 1; d >= 0; --d) {
      const int index = int(rest % p.extents[d]), place = index - p.before[d];
      rest /= p.extents[d];
      to += index * p.to_strides[d], from += place * p.from_strides[d];
      inside = inside && place >= 0 && u32(place) < p.source[d];
    }
    static_cast<Unit*>(p.to)[to] = inside ? __ldg(static_cast<const Unit*>(p.from) + from) : filling(p.value, Unit());
  }
}

UNISONO_DEVICE i64 offset_of(u32 index, const u32 (&extents)[kCopyRank], const i64 (&strides)[kCopyRank]) {
  i64 offset = 0;
#pragma unroll
  for (int d = kCopyRank - 1; d >= 0; --d) offset += index % extents[d] * strides[d], index /= extents[d];
  return offset;
}
UNISONO_DEVICE void reshape(const ReshapeParams& p) {
  for (u64 i = first_index(); i < p.count; i += index_step())
    static_cast<u16*>(p.to)[offset_of(u32(i), p.to_extents, p.to_strides)] =
        __ldg(static_cast<const u16*>(p.from) + offset_of(u32(i), p.from_extents, p.from_strides));
}

}  // namespace unisono::plain
