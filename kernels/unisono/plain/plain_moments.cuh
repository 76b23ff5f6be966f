// Statistics of a tensor from the moments that its producers have stored (exchange/moment_store.cuh), without a pass
// over it.
#pragma once
#include "unisono/exchange/moments.cuh"
#include "unisono/params/plain_params.cuh"
#include "unisono/ptx/grid.cuh"

namespace unisono::plain {

// The entries of one source that belong to one result: neighbouring units, of every slot of one image or of all.
struct MomentEntries {
  const Entry* first;
  u32 units, count, apart;  // of a slot; in all; from slot to slot
  float weight;
  UNISONO_DEVICE MomentEntries(const MomentSource& s, u32 begin, u32 end, u32 image, u32 images)
      : first(s.entries), units(0), count(0), apart(s.channels / s.unit), weight(s.weight) {
    const u32 low = begin > s.first ? begin : s.first, past = s.first + s.channels, high = end < past ? end : past;
    if (low >= high) return;
    units = (high - low) / s.unit, count = units * s.slots * images;
    first += u64(image) * s.slots * apart + (low - s.first) / s.unit;
  }
  UNISONO_DEVICE Moments at(u32 i) const {
    const u32 slot = i / units;
    const uint4 x = *reinterpret_cast<const uint4*>(first + u64(slot) * apart + (i - slot * units));
    return {__uint_as_float(x.z) * weight, __uint_as_float(x.x), __uint_as_float(x.y) * weight};
  }
};

// A warp makes one result at a time. Lanes merge every 32nd entry, then a tree merges the lanes: a fixed order. Means
// are taken relative to one that a producer found, so that merging rounds them at the size of the differences.
UNISONO_DEVICE void join_moments(const JoinMomentsParams& p) {
  const u32 lane = threadIdx.x % 32, warps = gridDim.x * (blockDim.x / 32), together = p.per_image ? 1 : p.images;
  for (u32 index = (blockIdx.x * blockDim.x + threadIdx.x) / 32; index < p.results * (p.per_image ? p.images : 1);
       index += warps) {
    const u32 image = index / p.results, begin = index % p.results * p.width;
    float pivot = 0.f;
    Moments all{0.f, 0.f, 0.f};
    for (u32 k = 0; k < p.sources; ++k) {
      const MomentEntries entries(p.source[k], begin, begin + p.width, image, together);
      if (entries.count == 0) continue;
      if (pivot == 0.f) pivot = entries.at(0).mean;
#pragma unroll 4
      for (u32 i = lane; i < entries.count; i += 32) {
        const Moments m = entries.at(i);
        if (m.count > 0.f) merge(all, m.count, m.mean - pivot, m.m2);
      }
    }
#pragma unroll
    for (int apart = 16; apart > 0; apart /= 2) {
      const float count = __shfl_down_sync(~0u, all.count, apart), mean = __shfl_down_sync(~0u, all.mean, apart),
                  m2 = __shfl_down_sync(~0u, all.m2, apart);
      merge(all, count, mean, m2);
    }
    if (lane != 0) continue;
    const auto put = [&](const PlainTensor& to, float x) {
      if (to.memory != nullptr) static_cast<float*>(const_cast<void*>(to.memory))[index] = x;
    };
    put(p.mean, pivot + all.mean);
    put(p.variance, all.m2 / all.count);
  }
}

}  // namespace unisono::plain
