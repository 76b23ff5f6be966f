// Halo tiles, and for each the filters of all taps.
#pragma once
#include "unisono/load/sm90_producer.cuh"

namespace unisono {

template <class Kernel>
struct HaloTiles {
  using From = Producer<Kernel>;
  using Sharing = typename From::Sharing;
  static constexpr int kK = Kernel::kK, kAtoms = Kernel::kAtoms, kAtomK = Kernel::kAtomK, kClusterN = Kernel::kClusterN;

  // A tile's, with filters if `filters`; but for the next `ahead`, which are there.
  static UNISONO_DEVICE void load(const ConvParams& p, Sharing& sharing, u32 shared,
                                  const typename Kernel::Barriers& barriers, const Tile& tile, const Range& range,
                                  int k, bool filters, int& ahead, RingPosition<Kernel::kStages>& at,
                                  RingPosition<Kernel::kStagesA>& at_a) {
    const ConvGeometry& g = p.geometry;
    const auto rows = Kernel::Rows::of(g, tile, Kernel::kM, 0);
    const u32 bytes = kAtoms * (Kernel::kM / 8 + (g.taps_h - 1) * g.dilation_h) * Kernel::kLineBytes;
    int w = rows.left - g.pad_w, h = rows.top - g.pad_h, first = Kernel::Operands::first_channel(k);
    if (Kernel::kPhases)
      w = rows.left + (tile.phase % 2 + g.pad_w) / 2 - g.taps_w + 1,
      h = rows.top + (tile.phase / 2 + g.pad_h) / 2 - g.taps_h + 1;
    const auto voids = Kernel::Voids::of(g, tile.phase);
    for (int c = range.begin; c < range.end; ++c) {
      const u32 full = barriers.full_a(at_a.stage), to = shared + at_a.stage * Kernel::kBytesA;
      mbarrier_wait(barriers.empty_a(at_a.stage), at_a.parity ^ 1);
      if (voids.has_all(g))
        mbarrier_arrive(full);
      else
        mbarrier_arrive_expect(full, bytes);
#pragma unroll
      for (int atom = 0; atom < kAtoms && !voids.has_all(g); ++atom)
        if (kClusterN == 1 || sharing.issuer_a == u32(sharing.rank_n))
          From::PixelLoad::box(p.activation, to + atom * Kernel::kAtomBytesA, full, first + c * kK + atom * kAtomK, w,
                               h, tile.image, sharing.row_ctas);
      sharing.next_a();
      at_a.advance();
      for (int tap = 0; filters && tap < g.taps_h * g.taps_w; ++tap, at.advance()) {
        if (From::take_ahead(ahead, sharing)) continue;
        if (!Kernel::kStationary) mbarrier_wait(barriers.empty(at.stage), at.parity ^ 1);
        if (voids.has(tap / g.taps_w, tap % g.taps_w)) {
          mbarrier_arrive(barriers.full(at.stage));
          continue;
        }
        mbarrier_arrive_expect(barriers.full(at.stage), Kernel::kBytesB);
        From::load_step(p, sharing, shared + Kernel::kOffsetB + at.stage * Kernel::kBytesB, barriers.full(at.stage), c,
                        tap, k, tile);
      }
    }
  }
};

}  // namespace unisono
