// Convolutions of volumes and their transposes, in float32. A thread has one output, or several threads have every so
// many of its channels each.
#pragma once
#include "unisono/ptx/grid.cuh"
#include "unisono/tensor/number.cuh"
#include "unisono/tensor/space.cuh"

namespace unisono::tensor {

// The place along an axis that tap r of output `index` reads; below 0: none.
UNISONO_DEVICE int source_place(const VolumeAxis& axis, bool transposed, int index, int r) {
  int place = index * axis.stride - axis.before + r * axis.dilation;
  if (transposed) {
    place = index + axis.before - r * axis.dilation;
    place = place >= 0 && place % axis.stride == 0 ? place / axis.stride : -1;
  }
  return place < axis.extent ? place : -1;
}

// An output of a convolution: where it lies, and what it begins to read.
struct VolumeOutput {
  i64 from = 0, to = 0, filter = 0;
  int index[3] = {0, 0, 0};
  u32 channel = 0;

  UNISONO_DEVICE VolumeOutput(const VolumeParams& p, u32 number) {
    for_places(p.space, number, [&](u32 axis, u32 place) {
      from += place * p.from.strides[axis], to += place * p.to.strides[axis];
      if (int(axis) == p.channel_axis) channel = place;
      set_index(index, p.axis, axis, place);
    });
    const u32 group = channel / p.group_outputs;
    from += group * p.from_group;
    filter = group * p.filter_group + (channel - group * p.group_outputs) * p.filter_output;
  }
};

template <class From, class Filter>
UNISONO_DEVICE float sum_of_channels(const VolumeParams& p, i64 from, i64 filter, u32 lane) {
  float sum = 0.f;
  for (u32 c = lane; c < p.group_channels; c += 1u << p.lane_bits)
    sum = fmaf(load<From>(p.from.memory, from + c * p.from_channel),
               load<Filter>(p.filter, filter + c * p.filter_channel), sum);
  return sum;
}

template <class From, class Filter, class Bias, class To>
UNISONO_DEVICE void convolve(const VolumeParams& p) {
  const u32 lane = threadIdx.x & ((1u << p.lane_bits) - 1);
  const u64 threads = u64(p.space.count) << p.lane_bits;
  for (u64 thread = first_index(); thread < (threads + 31) / 32 * 32; thread += index_step()) {  // whole warps
    const bool inside = thread < threads;
    const VolumeOutput output(p, inside ? u32(thread >> p.lane_bits) : 0);
    float sum = p.bias == nullptr || lane > 0 ? 0.f : load<Bias>(p.bias, output.channel);
    for (int d = 0; d < p.axis[0].taps; ++d) {
      const int depth = source_place(p.axis[0], p.transposed, output.index[0], d);
      if (depth < 0) continue;
      for (int r = 0; r < p.axis[1].taps; ++r) {
        const int row = source_place(p.axis[1], p.transposed, output.index[1], r);
        if (row < 0) continue;
        for (int s = 0; s < p.axis[2].taps; ++s) {
          const int column = source_place(p.axis[2], p.transposed, output.index[2], s);
          if (column < 0) continue;
          const i64 from = depth * p.axis[0].step + row * p.axis[1].step + column * p.axis[2].step;
          const i64 filter = d * p.axis[0].tap_step + r * p.axis[1].tap_step + s * p.axis[2].tap_step;
          sum += sum_of_channels<From, Filter>(p, output.from + from, output.filter + filter, lane);
        }
      }
    }
    for (u32 apart = 1u << p.lane_bits >> 1; apart > 0; apart /= 2) sum += __shfl_xor_sync(~0u, sum, int(apart));
    if (inside && lane == 0) store<To>(p.to.memory, output.to, sum);
  }
}

}  // namespace unisono::tensor
