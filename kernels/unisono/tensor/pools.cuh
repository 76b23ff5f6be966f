// Pooling over windows of any number of axes. A thread has one output, or a word of neighbouring ones along the
// innermost axis, if that is not one of the window's.
#pragma once
#include "unisono/epilogue/math.cuh"
#include "unisono/ptx/grid.cuh"
#include "unisono/tensor/chunk.cuh"

namespace unisono::tensor {

// The first tap of an axis that does not lie before `low`; of none, the number of taps.
UNISONO_DEVICE int tap_from(const WindowAxis& w, int start, int low) {
  const int tap = start >= low ? 0 : divide_up(low - start, w.dilation);
  return tap < w.taps ? tap : w.taps;
}

// An output's window, as far as it lies inside.
template <int kAxes>
struct Window {
  i64 from = 0, to = 0, place = 0;  // offsets
  int first[kAxes], count[kAxes];
  u64 taps = 1, padded = 1;  // padded: the padding included

  UNISONO_DEVICE Window(const WindowParams& p, u32 number) {
    int index[kAxes] = {};
    for_places(p.space, number, [&](u32 axis, u32 at) {
      from += at * p.from.strides[axis], to += at * p.to.strides[axis], place += at * p.places.strides[axis];
      set_index(index, p.window, axis, at);
    });
#pragma unroll
    for (int of = 0; of < kAxes; ++of) {
      const WindowAxis& w = p.window[of];
      const int start = index[of] * w.stride - w.before, tap = tap_from(w, start, 0);
      first[of] = start + tap * w.dilation, count[of] = tap_from(w, start, w.extent) - tap;
      taps *= u64(count[of]), padded *= u64(tap_from(w, start, w.extent + w.after));
    }
  }
  // Calls visit(offset in `from`, number of the element), the innermost axis first.
  template <int kAxis = 0, class Visit>
  UNISONO_DEVICE void for_taps(const WindowParams& p, i64 offset, i64 number, const Visit& visit) const {
    if constexpr (kAxis == kAxes) {
      visit(offset, number);
    } else {
      const WindowAxis& w = p.window[kAxis];
      for (int tap = 0, at = first[kAxis]; tap < count[kAxis]; ++tap, at += w.dilation)
        for_taps<kAxis + 1>(p, offset + at * w.step, number + at * w.place_step, visit);
    }
  }
};

template <class From, class To, int kAxes, int kElements>
UNISONO_DEVICE void average_pool(const WindowParams& p) {
  using Sum = typename Stored<From>::Sum;
  for (u64 i = first_index(); i < p.space.count; i += index_step()) {
    const Window<kAxes> window(p, u32(i));
    Sum sums[kElements] = {};
    window.for_taps(p, window.from, 0, [&](i64 offset, i64) {
      const auto x = load_word<kElements, From>(p.from.memory, offset);
#pragma unroll
      for (int k = 0; k < kElements; ++k) sums[k] += Sum(x.of[k]);
    });
    const Sum terms = Sum(p.count_pad ? window.padded : window.taps);
    Chunk<kElements, To> y;
#pragma unroll
    for (int k = 0; k < kElements; ++k) y.of[k] = NumberOf<To>(sums[k] / terms);
    store_word(p.to.memory, window.to, y);
  }
}

// NaN is largest.
template <class From, class To, int kAxes, int kElements>
UNISONO_DEVICE void max_pool(const WindowParams& p) {
  for (u64 i = first_index(); i < p.space.count; i += index_step()) {
    const Window<kAxes> window(p, u32(i));
    Chunk<kElements, To> best;
#pragma unroll
    for (int k = 0; k < kElements; ++k) best.of[k] = -__int_as_float(0x7f800000);
    window.for_taps(p, window.from, 0, [&](i64 offset, i64) {
      const auto x = load_word<kElements, From>(p.from.memory, offset);
#pragma unroll
      for (int k = 0; k < kElements; ++k) best.of[k] = math::max(best.of[k], x.of[k]);
    });
    store_word(p.to.memory, window.to, best);
  }
}

// Where the first of the largest is.
template <class From, int kAxes>
UNISONO_DEVICE void max_pool_places(const WindowParams& p) {
  for (u64 i = first_index(); i < p.space.count; i += index_step()) {
    const Window<kAxes> window(p, u32(i));
    NumberOf<From> best = 0;
    i64 place = -1;
    window.for_taps(p, window.from, window.place, [&](i64 offset, i64 number) {
      const auto x = load<From>(p.from.memory, offset);
      if (place < 0 || (best == best && !(x <= best))) best = x, place = number;
    });
    store<i64>(p.to.memory, window.to, place);
  }
}

}  // namespace unisono::tensor
