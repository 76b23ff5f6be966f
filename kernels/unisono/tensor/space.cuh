// Where the elements of strided tensors lie: an index of a space by its number.
#pragma once
#include "unisono/params/tensor_params.cuh"
#include "unisono/ptx/types.cuh"

namespace unisono::tensor {

// Calls visit(axis, place) for each axis of index `number`, the innermost first.
template <class Visit>
UNISONO_DEVICE void for_places(const IndexSpace& space, u32 number, const Visit& visit) {
  for (u32 axis = space.axes; axis-- > 0;) {
    const u32 next = u32(divided(int(number), space.by[axis]));
    visit(axis, number - next * space.extents[axis]);
    number = next;
  }
}

// Notes the place along an axis of the space for that of a window's axes, or of others like them, which it is.
template <int kAxes, class Axis>
UNISONO_DEVICE void set_index(int (&index)[kAxes], const Axis* axes, u32 axis, u32 place) {
#pragma unroll
  for (int of = 0; of < kAxes; ++of)
    if (axes[of].of == int(axis)) index[of] = int(place);
}

UNISONO_DEVICE i64 offset_of(const IndexSpace& space, u32 number, const i64 (&strides)[kTensorAxes]) {
  i64 offset = 0;
  for_places(space, number, [&](u32 axis, u32 place) { offset += place * strides[axis]; });
  return offset;
}

// The offsets of an index in tensors, given by their strides.
template <class... Strides>
struct Offsets {
  i64 of[sizeof...(Strides)];
};
template <class... Strides>
UNISONO_DEVICE Offsets<Strides...> offsets_of(const IndexSpace& space, u32 number, const Strides&... strides) {
  Offsets<Strides...> offsets = {};
  for_places(space, number, [&](u32 axis, u32 place) {
    int tensor = 0;
    ((offsets.of[tensor++] += place * strides[axis]), ...);
  });
  return offsets;
}

// The word of a view: its element where the view's type is a word.
template <class Word>
UNISONO_DEVICE Word* words(const StridedView& view) {
  return static_cast<Word*>(view.memory);
}

}  // namespace unisono::tensor
