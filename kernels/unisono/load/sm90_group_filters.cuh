// Groups of few channels on the tensor cores: a tile across the channels is kN / K' groups of C' channels and K'
// filters each. Its pixels have the channels of all these groups, at most 64, in one k-step a tap. The filters of a tap
// are kN rows of that many k, of which row n has those of its own group alone: blocks along a diagonal. All taps stay
// in shared memory for the whole launch, since a CTA's tiles have the same channels.
//
// What stands beside the blocks is zero, and so is what lies behind the last filter. An infinity or a NaN in a channel
// of one group reaches the other groups of the tile: 0 times either is NaN (docs/numerics.md).
#pragma once
#include "unisono/ptx/sm90_barrier.cuh"
#include "unisono/tile/tile_scheduler.cuh"

namespace unisono {

template <class Kernel>
struct GroupFiltersLoad {
  using Operands = typename Kernel::Operands;
  static constexpr int kN = Kernel::kN, kChannels = Operands::kGroupChannels, kFilters = Operands::kGroupFilters;
  static constexpr int kChunks = 8, kEach = 8;  // 16 bytes of the 128 of a row
  static constexpr bool kVectors = kChannels % kEach == 0;
  static_assert(kN % kFilters == 0 && kN / kFilters * kChannels <= kChunks * kEach, "whole groups, in one k-step");

  // Elements [first, first + 8) of a row whose block is kChannels elements from `block` on, at `from`.
  static UNISONO_DEVICE uint4 chunk_at(const u16* from, int block, int first) {
    if constexpr (kVectors) {
      if (first < block || first >= block + kChannels) return {0, 0, 0, 0};
      return __ldg(reinterpret_cast<const uint4*>(from + first - block));
    } else {
      u16 x[kEach];
#pragma unroll
      for (int e = 0; e < kEach; ++e) {
        const int c = first + e - block;
        x[e] = c >= 0 && c < kChannels ? __ldg(from + c) : u16(0);
      }
      return {x[0] | u32(x[1]) << 16, x[2] | u32(x[3]) << 16, x[4] | u32(x[5]) << 16, x[6] | u32(x[7]) << 16};
    }
  }

  // By all threads of the CTA: the filters of all taps, one after another, swizzled as TMA would have.
  static UNISONO_DEVICE void fill(const ConvParams& p, u8* to) {
    const ConvGeometry& g = p.geometry;
    const u16* memory = static_cast<const u16*>(reinterpret_cast<const GroupFilters&>(p.filter).memory);
    const int taps = g.taps_h * g.taps_w;
    const int first_filter = tile_at<1, 1, 0>(g, blockIdx.x, 0).tile_n * kN;
#pragma unroll 4
    for (int i = threadIdx.x; i < taps * kN * kChunks; i += Kernel::kThreads) {
      const int chunk = i % kChunks, n = i / kChunks % kN, tap = i / kChunks / kN, filter = first_filter + n;
      uint4 values{0, 0, 0, 0};
      if (filter < g.channels)
        values = chunk_at(memory + (u64(filter) * taps + tap) * kChannels, n / kFilters * kChannels, chunk * kEach);
      *reinterpret_cast<uint4*>(to + tap * Kernel::kBytesB + n * 128 + ((chunk ^ (n & 7)) << 4)) = values;
    }
    fence_async_shared();
  }
};

}  // namespace unisono
