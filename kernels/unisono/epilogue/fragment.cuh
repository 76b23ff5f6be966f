// How a tile of sums lies in the registers of a warpgroup. A fragment is a type that says so, and the one thing that an
// epilogue knows of the instructions that multiplied:
//
//   int kRows, kChannels                    of the tile
//   using Accumulators                      a thread's registers
//   int kPairs                              pairs of neighbouring channels of a row that a thread has
//   int row(int thread, int pair)           where they are in the tile; the second channel is the next one
//   int channel(int thread, int pair)
//   float& value(Accumulators&, int pair, int second)
//
// wgmma with pixels first and mma.sync leave m16n8 blocks: lane l has rows l / 4 and l / 4 + 8 of it, channels
// 2 * (l % 4) and the next.
#pragma once
#include "unisono/ptx/types.cuh"

namespace unisono {

// Four warps, each with 16 rows of every 64, and all channels of these.
template <int kRowsOf, int kChannelsOf>
struct RowFragment {
  static constexpr int kRows = kRowsOf, kChannels = kChannelsOf, kBlocks = kRows / 64;
  static_assert(kRows % 64 == 0 && kChannels % 8 == 0, "blocks of 16 rows a warp and 8 channels");
  using Accumulators = float[kBlocks][kChannels / 2];
  static constexpr int kPairsOfBlock = kChannels / 4, kPairs = kBlocks * kPairsOfBlock;

  static UNISONO_DEVICE int row(int thread, int pair) {
    return pair / kPairsOfBlock * 64 + thread / 32 * 16 + (thread & 31) / 4 + 8 * (pair & 1);
  }
  static UNISONO_DEVICE int channel(int thread, int pair) { return pair % kPairsOfBlock / 2 * 8 + 2 * (thread & 3); }
  static UNISONO_DEVICE float& value(Accumulators& acc, int pair, int second) {
    return acc[pair / kPairsOfBlock][2 * (pair % kPairsOfBlock) + second];
  }
};

}  // namespace unisono
