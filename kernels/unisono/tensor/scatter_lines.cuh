// Updates that are joined with the elements that indices name, in their order.
#pragma once
#include "unisono/tensor/functions.cuh"
#include "unisono/tensor/indexed.cuh"

namespace unisono::tensor {

struct JoinSum {
  template <class T>
  static UNISONO_DEVICE T of(T x, T y) {
    return sum(x, y);
  }
};
struct JoinProduct {
  template <class T>
  static UNISONO_DEVICE T of(T x, T y) {
    return product(x, y);
  }
};
struct JoinLesser {
  template <class T>
  static UNISONO_DEVICE T of(T x, T y) {
    return lesser(x, y);
  }
};
struct JoinGreater {
  template <class T>
  static UNISONO_DEVICE T of(T x, T y) {
    return greater(x, y);
  }
};

// No two threads have the same element of `to`: lines share none, nor do the owners of a line's places.
// T, Update: types in memory whose numbers are of one type.
template <class T, class Update, class Join>
UNISONO_DEVICE void scatter_lines(const ScatterLinesParams& p) {
  const u64 works = u64(p.lines.count) * p.owners;
  for (u64 i = first_index(); i < works; i += index_step()) {
    const u32 owner = u32(i / p.lines.count), line = u32(i - u64(owner) * p.lines.count);
    const auto at = offsets_of(p.lines, line, p.indices.strides, p.updates.strides, p.to.strides);
    for (u32 step = 0; step < p.steps.count; ++step) {
      const auto by = offsets_of(p.steps, step, p.index_steps, p.update_steps);
      const NamedPlace place(p.named, p.indices.memory, at.of[0] + by.of[0], p.faults);
      if (!place.found || u64(place.slot) % p.owners != owner) continue;
      const i64 offset = at.of[2] + place.offset;
      store<T>(p.to.memory, offset,
               Join::of(own<T>(p.to.memory, offset), load<Update>(p.updates.memory, at.of[1] + by.of[1])));
    }
  }
}

}  // namespace unisono::tensor
