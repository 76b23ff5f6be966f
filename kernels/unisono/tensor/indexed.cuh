// Elements and slices that indices name, read and written as words. What an index outside its axis names is read as
// zero, and not written.
#pragma once
#include "unisono/ptx/grid.cuh"
#include "unisono/tensor/faults.cuh"
#include "unisono/tensor/moves.cuh"
#include "unisono/tensor/space.cuh"

namespace unisono::tensor {

// What a tuple of indices names: its offset, and its number among all places.
struct NamedPlace {
  i64 offset = 0, slot = 0;
  bool found = true;

  UNISONO_DEVICE NamedPlace(const NamedAxes& named, const void* indices, i64 at, const FaultReport& faults) {
    for (u32 d = 0; d < named.count; ++d, at += named.step) {
      const i64 index =
          named.wide ? __ldg(static_cast<const i64*>(indices) + at) : __ldg(static_cast<const int*>(indices) + at);
      const i64 place = named_place(index, named.extents[d], faults);
      found = found && place >= 0;
      offset += place * named.strides[d], slot += place * named.slots[d];
    }
  }
};

template <class Word>
UNISONO_DEVICE void gather(const GatherParams& p) {
  for (u64 i = first_index(); i < p.space.count; i += index_step()) {
    const auto at = offsets_of(p.space, u32(i), p.from.strides, p.indices.strides, p.to.strides);
    const NamedPlace place(p.named, p.indices.memory, at.of[1], p.faults);
    words<Word>(p.to)[at.of[2]] =
        place.found ? __ldg(words<const Word>(p.from) + at.of[0] + place.offset) : filling(0, Word());
  }
}

UNISONO_DEVICE void clear(const ClearParams& p) {
  for (u64 i = first_index(); i < p.count; i += index_step()) p.memory[i] = 0;
}

// Each place learns the number of the last update for it.
UNISONO_DEVICE void claim(const ScatterParams& p) {
  for (u64 i = first_index(); i < p.space.count; i += index_step()) {
    const auto at = offsets_of(p.space, u32(i), p.indices.strides, p.slots.strides, p.numbers.strides);
    const NamedPlace place(p.named, p.indices.memory, at.of[0], p.faults);
    if (place.found) atomicMax(words<u32>(p.slots) + at.of[1] + place.slot, u32(at.of[2]) + 1);
  }
}

// The updates that have won their places.
template <class Word>
UNISONO_DEVICE void scatter(const ScatterParams& p) {
  for (u64 i = first_index(); i < p.space.count; i += index_step()) {
    const auto at = offsets_of(p.space, u32(i), p.indices.strides, p.slots.strides, p.numbers.strides,
                               p.updates.strides, p.to.strides);
    const NamedPlace place(p.named, p.indices.memory, at.of[0], p.faults);
    if (place.found && __ldg(words<const u32>(p.slots) + at.of[1] + place.slot) == u32(at.of[2]) + 1)
      words<Word>(p.to)[at.of[4] + place.offset] = __ldg(words<const Word>(p.updates) + at.of[3]);
  }
}

}  // namespace unisono::tensor
