// Tensors resampled along some axes by tables of weights. A thread has one output, or a word of neighbouring ones along
// the innermost axis, if that stays as it is.
#pragma once
#include "unisono/ptx/grid.cuh"
#include "unisono/tensor/chunk.cuh"

namespace unisono::tensor {

// An output: where it lies, its first tap along each axis, and whether one of its taps lies outside.
template <int kAxes>
struct ResampledOutput {
  i64 from = 0, to = 0;
  int first[kAxes] = {};
  bool outside = false;

  UNISONO_DEVICE ResampledOutput(const ResampleParams& p, u32 number) {
    for_places(p.space, number, [&](u32 axis, u32 at) {
      from += at * p.from.strides[axis], to += at * p.to.strides[axis];
      set_index(first, p.axis, axis, at);
    });
#pragma unroll
    for (int of = 0; of < kAxes; ++of) first[of] *= p.axis[of].taps;
  }
  // Calls visit(offset in `from`, weight) for each tap. kTaps: of each axis, 0: as many as it has.
  template <int kTaps, class Sum, int kAxis = 0, class Visit>
  UNISONO_DEVICE void for_taps(const ResampleParams& p, i64 offset, Sum weight, const Visit& visit) {
    if constexpr (kAxis == kAxes) {
      visit(offset, weight);
    } else {
      const ResampleAxis& axis = p.axis[kAxis];
      const int taps = kTaps == 0 ? axis.taps : kTaps;
#pragma unroll
      for (int tap = 0; tap < taps; ++tap) {
        const int place = __ldg(axis.places + first[kAxis] + tap);
        outside = outside || place < 0;
        for_taps<kTaps, Sum, kAxis + 1>(p, offset + larger(place, 0) * axis.step,
                                        weight * __ldg(static_cast<const Sum*>(axis.weights) + first[kAxis] + tap),
                                        visit);
      }
    }
  }
};

template <class From, class To, int kAxes, int kTaps, int kElements>
UNISONO_DEVICE void resample(const ResampleParams& p) {
  using Sum = typename Stored<From>::Sum;
  for (u64 i = first_index(); i < p.space.count; i += index_step()) {
    ResampledOutput<kAxes> output(p, u32(i));
    Sum sums[kElements] = {};
    output.template for_taps<kTaps>(p, output.from, Sum(1), [&](i64 offset, Sum weight) {
      const auto x = load_word<kElements, From>(p.from.memory, offset);
#pragma unroll
      for (int k = 0; k < kElements; ++k) sums[k] += weight * Sum(x.of[k]);
    });
    Chunk<kElements, To> y;
#pragma unroll
    for (int k = 0; k < kElements; ++k) y.of[k] = NumberOf<To>(output.outside ? Sum(p.outside) : sums[k]);
    store_word(p.to.memory, output.to, y);
  }
}

}  // namespace unisono::tensor
