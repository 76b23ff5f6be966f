// Elements of any type moved: as words of 1 to 16 bytes.
#pragma once
#include "unisono/ptx/grid.cuh"
#include "unisono/tensor/space.cuh"

namespace unisono::tensor {

template <class Word>
UNISONO_DEVICE Word filling(u64 fill, Word) {
  return Word(fill);
}
UNISONO_DEVICE uint4 filling(u64 fill, uint4) { return {u32(fill), u32(fill >> 32), u32(fill), u32(fill >> 32)}; }

template <class Word>
UNISONO_DEVICE void move(const MoveParams& p) {
  for (u64 i = first_index(); i < p.space.count; i += index_step()) {
    i64 from = 0, to = 0;
    bool inside = true;
    for_places(p.space, u32(i), [&](u32 axis, u32 place) {
      const int source = p.tables[axis] == nullptr ? int(place) : __ldg(p.tables[axis] + place);
      inside = inside && source >= 0;
      from += source * p.from.strides[axis], to += place * p.to.strides[axis];
    });
    words<Word>(p.to)[to] = inside ? __ldg(words<const Word>(p.from) + from) : filling(p.fill, Word());
  }
}

template <class Word>
UNISONO_DEVICE void reorder(const ReorderParams& p) {
  for (u64 i = first_index(); i < p.to_space.count; i += index_step())
    words<Word>(p.to)[offset_of(p.to_space, u32(i), p.to.strides)] =
        __ldg(words<const Word>(p.from) + offset_of(p.from_space, u32(i), p.from.strides));
}

template <class Word>
UNISONO_DEVICE void triangle(const TriangleParams& p) {
  for (u64 i = first_index(); i < p.space.count; i += index_step()) {
    i64 from = 0, to = 0, right = 0;  // right: how far from the main diagonal
    for_places(p.space, u32(i), [&](u32 axis, u32 place) {
      from += place * p.from.strides[axis], to += place * p.to.strides[axis];
      if (int(axis) == p.row_axis) right -= place;
      if (int(axis) == p.column_axis) right += place;
    });
    const bool kept = p.upper ? right >= p.diagonal : right <= p.diagonal;
    words<Word>(p.to)[to] = kept ? __ldg(words<const Word>(p.from) + from) : Word(0);
  }
}

UNISONO_DEVICE void range(const RangeParams& p) {
  for (u64 i = first_index(); i < p.count; i += index_step()) p.to[i64(i) * p.stride] = i64(i);
}

}  // namespace unisono::tensor
