// Filters that no launch writes, loaded before the wait for the launches ahead.
#pragma once
#include "unisono/load/sm90_producer.cuh"

namespace unisono {

template <class Kernel>
UNISONO_DEVICE void Producer<Kernel>::load_filters_ahead(const ConvParams& p, u32 shared, const Barriers& barriers,
                                                         int rank) {
  const ConvGeometry& g = p.geometry;
  const int item = blockIdx.x / kClusterCtas;
  if (item >= Kernel::items(g)) return;
  const Tile tile =
      tile_at<kClusterM, kClusterN, kGroup, kPhases, Kernel::Voids::kAny>(g, Kernel::tile_of(g, item), rank);
  const Range range = Kernel::loads_of(g, item);
  const int taps = g.taps_h * g.taps_w, k = tile.tile_n * kN;
  Sharing sharing(rank);
  fence_async_shared();  // this thread has just initialised the barriers
  for (int step = 0; step < steps_ahead(g, range); ++step) {
    const u32 full = barriers.full(step), to = shared + kOffsetB + step * kBytesB;
    if (kPhases && Kernel::Voids::of(g, tile.phase).has(step % taps / g.taps_w, step % taps % g.taps_w)) {
      mbarrier_arrive(full);
      continue;
    }
    mbarrier_arrive_expect(full, Kernel::kTwoRings ? kBytesB : kBytesA + kBytesB);
    if (kPhases) {
      load_phase_filter(p, sharing, to, full, (range.begin + step / taps) * kK, step % taps, k, tile.phase);
    } else {
#pragma unroll
      for (int atom = 0; atom < kAtoms; ++atom) {
        // With im2col tiles the channels follow one another, then the taps; with halo tiles the other way round.
        const int load = (range.begin + step) * kAtoms + atom;
        int tap = kHaloTile ? step % taps : load / g.channel_blocks,
            c = kHaloTile ? (range.begin + step / taps) * kAtoms + atom : load % g.channel_blocks;
        if (tap == taps) tap = 0, c = g.channel_blocks;  // after the last tap: zeros
        load_filter(p, sharing, to, full, c * kAtomK, tap, k, tile.image, atom);
      }
    }
  }
}

}  // namespace unisono
