// Tensors resampled along any axes by tables of weights, one output a thread.
#pragma once
#include "unisono/ptx/grid.cuh"
#include "unisono/tensor/number.cuh"
#include "unisono/tensor/space.cuh"

namespace unisono::tensor {

// The taps of an output along each axis that is resampled.
struct TapRanges {
  i64 from = 0, to = 0;
  int first[kTensorAxes], count[kTensorAxes];
  u32 taps = 1;

  UNISONO_DEVICE TapRanges(const ResampleParams& p, u32 number) {
    for_places(p.space, number, [&](u32 axis, u32 index) {
      from += index * p.from.strides[axis], to += index * p.to.strides[axis];
      const int of = p.resampled[axis];
      if (of < 0) return;
      first[of] = __ldg(p.axis[of].first + index);
      count[of] = __ldg(p.axis[of].first + index + 1) - first[of];
      taps *= u32(count[of]);
    });
  }
};

template <class From, class To>
UNISONO_DEVICE void resample(const ResampleParams& p) {
  for (u64 i = first_index(); i < p.space.count; i += index_step()) {
    const TapRanges ranges(p, u32(i));
    double sum = 0;
    bool outside = false;
    for (u32 tap = 0; tap < ranges.taps; ++tap) {
      i64 offset = ranges.from;
      double weight = 1;
      u32 rest = tap;
      for (u32 axis = p.axes; axis-- > 0; rest /= u32(ranges.count[axis])) {
        const int at = ranges.first[axis] + int(rest % u32(ranges.count[axis]));
        const int place = __ldg(p.axis[axis].places + at);
        outside = outside || place < 0;
        offset += place * p.axis[axis].step, weight *= __ldg(p.axis[axis].weights + at);
      }
      if (outside) break;
      sum += weight * double(load<From>(p.from.memory, offset));
    }
    store<To>(p.to.memory, ranges.to, NumberOf<To>(outside ? double(p.outside) : sum));
  }
}

}  // namespace unisono::tensor
