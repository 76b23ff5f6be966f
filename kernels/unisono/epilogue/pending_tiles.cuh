// Streamed: which of a consumer group's tiles are finished when.
#pragma once
#include "unisono/ptx/types.cuh"

namespace unisono {

// Which of a consumer group's tiles are not yet normalised: `oldest`, and of those after it all whose bits are not set.
// What they wait for is an image, kByChannels an image's channels of one tile, whose groups no tile crosses.
template <int kConsumerGroups, bool kByChannels>
struct PendingTiles {
  int oldest;
  bool one_column;  // all tiles of the consumer group that wait together have the same channels
  u64 done = 0;
  UNISONO_DEVICE bool holds(int tile) const { return tile - oldest < 64 * kConsumerGroups; }
  UNISONO_DEVICE bool has(int tile) const { return !holds(tile) || !(done >> (tile - oldest) / kConsumerGroups & 1); }
  UNISONO_DEVICE void finished(int tile) {
    done |= u64(1) << (tile - oldest) / kConsumerGroups;
    for (; done & 1; done >>= 1) oldest += kConsumerGroups;
  }

  // Whether two tiles wait for the same statistics.
  template <class At>
  static UNISONO_DEVICE bool together(const At& a, const At& b) {
    return a.image == b.image && (!kByChannels || a.first_channel == b.first_channel);
  }

  // The staging buffers, which hold this consumer group's tile `kept`, at `last`, become free for its `next` one. Tiles
  // that wait for other statistics than that are finished, at most two; if kDrain, when no tile follows (`next` is of
  // no image), all: those that wait together newest first, as L2 still has what was spilled last.
  template <bool kDrain, class Again, class HeldTile, class At>
  UNISONO_DEVICE void make_room(Again& again, HeldTile&& held_tile, int kept, const At& last, const At& next) {
    const bool alone = oldest == kept;
    const bool alike = alone || (one_column && together(held_tile(oldest), last));  // all that wait
    bool in_place = alike && !together(last, next) && holds(kept);
    if (!in_place) again.spill(last);
    int newest = in_place ? kept - kConsumerGroups : kept;
    for (int budget = 2; kDrain || budget > 0; --budget) {
      int tile = in_place ? kept : oldest;
      if (kDrain && alike && !in_place) {
        while (newest >= oldest && !has(newest)) newest -= kConsumerGroups;
        tile = newest;
        newest -= kConsumerGroups;
        if (tile < oldest) break;
      }
      if (tile > kept) break;
      At at = last;
      if (tile != kept) at = held_tile(tile);
      if (together(at, next)) break;
      again.await(at);
      again.first.trace.mark(7);
      again.template finish<!kDrain>(at, !in_place, tile != kept);
      if (!(kDrain && alike)) finished(tile);
      in_place = false;
    }
    if (!kDrain && oldest > kept) again.release();
  }
  template <class Again, class HeldTile, class At>
  UNISONO_DEVICE void drain(Again& again, HeldTile&& held_tile, int kept, const At& last) {
    At none{};
    none.image = -1;
    make_room<true>(again, held_tile, kept, last, none);
  }
};

}  // namespace unisono
