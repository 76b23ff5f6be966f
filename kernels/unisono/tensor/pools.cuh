// Pooling over windows of any number of axes, one output a thread.
#pragma once
#include "unisono/ptx/grid.cuh"
#include "unisono/tensor/number.cuh"
#include "unisono/tensor/space.cuh"

namespace unisono::tensor {

// The first tap of an axis that does not lie before `low`; of none, the number of taps.
UNISONO_DEVICE int tap_from(const WindowAxis& w, int start, int low) {
  const int tap = start >= low ? 0 : divide_up(low - start, w.dilation);
  return tap < w.taps ? tap : w.taps;
}

// An output's window, as far as it lies inside.
struct Window {
  i64 from = 0, to = 0, place = 0;  // offsets
  int first[kTensorAxes], count[kTensorAxes];
  u32 taps = 1;
  double padded = 1;  // taps, the padding included

  UNISONO_DEVICE Window(const WindowParams& p, u32 number) {
    for_places(p.space, number, [&](u32 axis, u32 index) {
      from += index * p.from.strides[axis], to += index * p.to.strides[axis], place += index * p.places.strides[axis];
      const int of = p.window_of[axis];
      if (of < 0) return;
      const WindowAxis& w = p.window[of];
      const int start = int(index) * w.stride - w.before, tap = tap_from(w, start, 0);
      first[of] = start + tap * w.dilation, count[of] = tap_from(w, start, w.extent) - tap;
      taps *= u32(count[of]);
      padded *= tap_from(w, start, w.extent + w.after);
    });
  }
  // Calls visit(offset in `from`, number of the element), the innermost axis first.
  template <class Visit>
  UNISONO_DEVICE void for_taps(const WindowParams& p, const Visit& visit) const {
    for (u32 tap = 0; tap < taps; ++tap) {
      i64 offset = from, number = place;
      u32 rest = tap;
      for (u32 axis = p.axes; axis-- > 0; rest /= u32(count[axis])) {
        const int at = first[axis] + int(rest % u32(count[axis])) * p.window[axis].dilation;
        offset += at * p.window[axis].step, number += at * p.window[axis].place_step;
      }
      visit(offset, number);
    }
  }
};

template <class From, class To>
UNISONO_DEVICE void average_pool(const WindowParams& p) {
  for (u64 i = first_index(); i < p.space.count; i += index_step()) {
    const Window window(p, u32(i));
    double sum = 0;
    window.for_taps(p, [&](i64 offset, i64) { sum += double(load<From>(p.from.memory, offset)); });
    store<To>(p.to.memory, window.to, NumberOf<To>(sum / (p.count_pad ? window.padded : double(window.taps))));
  }
}

// The largest, or with kPlaces where it is; NaN is largest.
template <class From, class To, bool kPlaces>
UNISONO_DEVICE void max_pool(const WindowParams& p) {
  for (u64 i = first_index(); i < p.space.count; i += index_step()) {
    const Window window(p, u32(i));
    auto best = NumberOf<From>(-__int_as_float(0x7f800000));
    i64 place = -1;
    window.for_taps(p, [&](i64 offset, i64 number) {
      const auto x = load<From>(p.from.memory, offset);
      const bool kept = kPlaces && place < 0 ? false : best != best || x <= best;
      if (!kept) best = x, place = number;
    });
    store<To>(p.to.memory, window.to, kPlaces ? NumberOf<To>(place) : NumberOf<To>(best));
  }
}

}  // namespace unisono::tensor
