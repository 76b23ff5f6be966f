// Elements of any type moved between two orders of memory: a tile at a time, through shared memory.
#pragma once
#include "unisono/ptx/grid.cuh"
#include "unisono/tensor/space.cuh"

namespace unisono::tensor {

// By CTAs of 256 threads.
template <class Word>
UNISONO_DEVICE void transpose(const TransposeParams& p) {
  constexpr u32 kSide = kTransposedSide, kRows = 256 / kSide;
  constexpr u32 kPitch = kSide + (sizeof(Word) < 4 ? 4 / sizeof(Word) : 1);  // a column's words are in different banks
  __shared__ Word tile[kSide][kPitch];
  const u32 x = threadIdx.x % kSide, y = threadIdx.x / kSide;
  for (u64 i = blockIdx.x; i < p.tiles.count; i += gridDim.x) {
    i64 from = 0, to = 0;
    u32 top = 0, left = 0;
    for_places(p.tiles, u32(i), [&](u32 axis, u32 place) {
      from += place * p.from.strides[axis], to += place * p.to.strides[axis];
      if (axis + 1 == p.tiles.axes) left = place * kSide;
      if (axis + 2 == p.tiles.axes) top = place * kSide;
    });
    for (u32 row = y; row < kSide; row += kRows)
      if (top + row < p.down && left + x < p.across)
        tile[row][x] = __ldg(words<const Word>(p.from) + from + (top + row) * p.from_step + left + x);
    __syncthreads();
    for (u32 column = y; column < kSide; column += kRows)
      if (left + column < p.across && top + x < p.down)
        words<Word>(p.to)[to + (left + column) * p.to_step + top + x] = tile[x][column];
    __syncthreads();
  }
}

}  // namespace unisono::tensor
