// How a tile of sums lies in the registers of a warpgroup. A fragment is a type that says so, and all that an epilogue
// knows of the instructions that multiplied. Pairs are of neighbouring channels of a row:
//
//   int kRows, kChannels, kBlocks           of the tile; blocks of 64 rows
//   using Accumulators                      a thread's registers
//   int kPairs                              that a thread has
//   int row(int thread, int pair)           where they are in the tile; the second channel is the next one
//   int channel(int thread, int pair)
//   auto& value(sums, int pair, int second)
//
// A thread has parts of kThreadRows rows, which it counts by r, and four neighbouring lanes have a row together:
//
//   int thread_row(int pair)                r of a pair
//   int row_of(int thread, int r)           its row of the tile
//   int pair_of(int r, int chunk)           the pair that it has of eight channels
//   int channel_of(int thread, int n)       the channel of its n-th sum of a row
#pragma once
#include "unisono/ptx/types.cuh"

namespace unisono {

// Four warps, each with 16 rows of every 64, and all channels of these, in m16n8 blocks: lane l has rows l / 4 and
// l / 4 + 8 of it, channels 2 * (l % 4) and the next. So leave them mma.sync, and wgmma with pixels first.
// After a row's sums of the first product there are those of others, of the same channels.
template <int kRowsOf, int kChannelsOf, int kProductsOf = 1>
struct RowFragment {
  static constexpr int kRows = kRowsOf, kChannels = kChannelsOf, kBlocks = kRows / 64, kProducts = kProductsOf;
  static_assert(kRows % 64 == 0 && kChannels % 8 == 0, "blocks of 16 rows a warp and 8 channels");
  using Accumulators = float[kBlocks][kProducts * kChannels / 2];
  static constexpr int kPairsOfBlock = kChannels / 4, kPairs = kBlocks * kPairsOfBlock, kThreadRows = 2 * kBlocks;

  static UNISONO_DEVICE int thread_row(int pair) { return 2 * (pair / kPairsOfBlock) + (pair & 1); }
  static UNISONO_DEVICE int row_of(int thread, int r) {
    return 64 * (r / 2) + thread / 32 * 16 + (thread & 31) / 4 + 8 * (r & 1);
  }
  static UNISONO_DEVICE int pair_of(int r, int chunk) { return r / 2 * kPairsOfBlock + 2 * chunk + (r & 1); }
  static UNISONO_DEVICE int channel_of(int thread, int n) { return 8 * (n / 2) + 2 * (thread & 3) + (n & 1); }

  static UNISONO_DEVICE int row(int thread, int pair) { return row_of(thread, thread_row(pair)); }
  static UNISONO_DEVICE int channel(int thread, int pair) { return pair % kPairsOfBlock / 2 * 8 + 2 * (thread & 3); }
  template <class Sums>
  static UNISONO_DEVICE auto& value(Sums& sums, int pair, int second, int product = 0) {
    return sums[pair / kPairsOfBlock][product * (kChannels / 2) + 2 * (pair % kPairsOfBlock) + second];
  }
};

}  // namespace unisono
