// Groups of few channels on the tensor cores: a tile across the channels is kN / K' groups of C' channels and K'
// filters each. Its pixels have the channels of all these groups, at most 64, in one k-step a tap. The filters of a tap
// are kN rows of that many k, and row n has only those of its group: blocks along a diagonal. All taps stay in shared
// memory for the whole launch, since a CTA's tiles all have the same channels.
//
// What stands next to the blocks is zero, and so is what lies after the last filter. An infinity or a NaN in a channel
// of one group reaches the other groups of the tile: 0 times either is NaN (docs/numerics.md).
#pragma once
#include "unisono/ptx/bundle.cuh"
#include "unisono/ptx/sm90_barrier.cuh"
#include "unisono/tile/tile_scheduler.cuh"

namespace unisono {

template <class Kernel>
struct GroupFiltersLoad {
  using Operands = typename Kernel::Operands;
  static constexpr int kN = Kernel::kN, kChannels = Operands::kGroupChannels, kFilters = Operands::kGroupFilters;
  static constexpr int kThreads = 128 * Kernel::kConsumers;
  static constexpr int kChunks = 8, kEach = 8;  // 16 bytes of the 128 of a row
  static_assert(kN % kFilters == 0 && kN / kFilters * kChannels <= kChunks * kEach, "whole groups, in one k-step");

  // Elements of a load: a block begins at a multiple of them.
  static constexpr int kUnit = kChannels % 8 == 0 ? 8 : kChannels % 4 == 0 ? 4 : kChannels % 2 == 0 ? 2 : 1;
  static constexpr int kSpan = kEach % kChannels == 0 || kChannels % kEach == 0
                                   ? divide_up(kChannels, kEach)
                                   : (kChannels + 2 * kEach - 2) / kEach;  // chunks that a block touches, at most
  static constexpr int kAtOnce = 9;  // loads of a thread in flight: with 256 threads all of 3x3 taps, 64 by 32 channels

  // The first of the k that row n multiplies.
  static UNISONO_DEVICE int block_of(int n) { return n / kFilters * kChannels; }

  static UNISONO_DEVICE void store(u8* to, int tap, int n, int chunk, const uint4& values) {
    *reinterpret_cast<uint4*>(to + tap * Kernel::kBytesB + n * 128 + ((chunk ^ (n & 7)) << 4)) = values;
  }

  // A chunk of row n of a tap; `from`: where memory has the block's first element.
  static UNISONO_DEVICE uint4 load(const u16* from, int n, int chunk) {
    u32 word[4]{};
#pragma unroll
    for (int i = 0; i < kEach / kUnit; ++i) {
      const int c = chunk * kEach + i * kUnit - block_of(n);
      if (c < 0 || c >= kChannels) continue;
      const auto unit = Bundle<2 * kUnit>::load(from + c);
      if constexpr (kUnit == 1) {
        word[i / 2] |= unit.word[0] << (i % 2 * 16);
      } else {
#pragma unroll
        for (int w = 0; w < kUnit / 2; ++w) word[i * (kUnit / 2) + w] = unit.word[w];
      }
    }
    return {word[0], word[1], word[2], word[3]};
  }

  // The same of a transposed convolution, where channels lie `step` elements apart.
  static UNISONO_DEVICE uint4 load_apart(const u16* from, i64 step, int n, int chunk) {
    u32 word[4]{};
#pragma unroll
    for (int i = 0; i < kEach; ++i)
      if (const int c = chunk * kEach + i - block_of(n); c >= 0 && c < kChannels)
        word[i / 2] |= u32(__ldg(from + c * step)) << (i % 2 * 16);
    return {word[0], word[1], word[2], word[3]};
  }

  // A chunk of row n, of the filter so numbered, of a tap.
  static UNISONO_DEVICE uint4 load_chunk(const u16* memory, int taps, int tap, int filter, int n, int chunk) {
    if constexpr (Operands::kFlipped) {
      const i64 first = i64(filter / kFilters) * kChannels * taps + taps - 1 - tap;
      return load_apart(memory + first * kFilters + filter % kFilters, i64(taps) * kFilters, n, chunk);
    } else {
      return load(memory + (u64(filter) * taps + tap) * kChannels, n, chunk);
    }
  }

  // All chunks of `taps` taps that no block touches.
  static UNISONO_DEVICE void clear(u8* to, int taps, int thread) {
    for (int i = thread; i < taps * kN * kChunks; i += kThreads) {
      const int chunk = i % kChunks, n = i / kChunks % kN, first = block_of(n) / kEach;
      if (chunk < first || chunk >= first + kSpan) store(to, i / kChunks / kN, n, chunk, {0, 0, 0, 0});
    }
  }

  // By all consumers, while the first pixels come: the filters of all taps, one after another, swizzled as by TMA.
  static UNISONO_DEVICE void fill(const ConvParams& p, u8* to, int thread) {
    const ConvGeometry& g = p.geometry;
    const u16* memory = static_cast<const u16*>(reinterpret_cast<const GroupFilters&>(p.filter).memory);
    const int taps = g.taps_h * g.taps_w, count = taps * kN * kSpan;
    const int first_filter = tile_at<1, 1, 0>(g, blockIdx.x, 0).tile_n * kN;
    int begin = thread;
    do {
      uint4 values[kAtOnce]{};
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        const int i = begin + j * kThreads, n = i / kSpan % kN, tap = i / kSpan / kN, filter = first_filter + n;
        if (i < count && filter < g.channels)
          values[j] = load_chunk(memory, taps, tap, filter, n, block_of(n) / kEach + i % kSpan);
      }
      if (begin == thread) clear(to, taps, thread);  // while the first loads are on their way
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        const int i = begin + j * kThreads, n = i / kSpan % kN, chunk = block_of(n) / kEach + i % kSpan;
        if (i < count && chunk < kChunks) store(to, i / kSpan / kN, n, chunk, values[j]);
      }
      begin += kAtOnce * kThreads;
    } while (begin < count);
    fence_async_shared();
    named_barrier(8, kThreads);
  }
};

}  // namespace unisono
