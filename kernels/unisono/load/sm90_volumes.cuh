// Im2col tiles of volumes: TMA's im2col loads of five dimensions, which walk over the pixels of all planes of a volume,
// and of all volumes, with an offset for each of a tap's three places.
#pragma once
#include "unisono/load/sm90_producer.cuh"

namespace unisono {

// A place in k: blocks of channels of a tap, taps of a filter row, rows of a filter plane, planes.
struct VolumeTap {
  int c, s, r, t;

  static UNISONO_DEVICE VolumeTap of(const ConvGeometry& g, int block) {
    const int tap = block / g.channel_blocks, row = tap / g.taps_w;
    return {block - tap * g.channel_blocks, tap - row * g.taps_w, row % g.plane_taps_h, row / g.plane_taps_h};
  }
  UNISONO_DEVICE void advance(const ConvGeometry& g) {
    if (++c < g.channel_blocks) return;
    c = 0;
    if (++s < g.taps_w) return;
    s = 0;
    if (++r == g.plane_taps_h) r = 0, ++t;
  }
  // In the filter (K, T*R*S, C).
  UNISONO_DEVICE int tap(const ConvGeometry& g) const { return (t * g.plane_taps_h + r) * g.taps_w + s; }
};

template <class Kernel>
UNISONO_DEVICE void Producer<Kernel>::load_volume_tiles(const ConvParams& p, Sharing& sharing, u32 shared,
                                                        const Barriers& barriers, const Tile& tile, const Range& range,
                                                        int k, bool filters, RingPosition<kStages>& at,
                                                        RingPosition<kStagesA>& at_a) {
  const ConvGeometry& g = p.geometry;
  const int row = tile.tile_m * kM, of_image = divided(row, g.by_pixels), pixel = row - of_image * (g.height * g.width),
            line = divided(pixel, g.by_width), plane = divided(line, g.by_plane_height);
  const int w = (pixel - line * g.width) * g.stride_w - g.pad_w,
            h = (line - plane * g.plane_height) * g.stride_h - g.pad_h, d = plane * g.stride_d - g.pad_d;
  const int blocks = g.taps_h * g.taps_w * g.channel_blocks;
  VolumeTap tap = VolumeTap::of(g, range.begin * kAtoms);

  const auto load_pixels = [&](u32 to, u32 full, int c) {
    const VolumeCoordinates from{c,
                                 w,
                                 h,
                                 d,
                                 tile.image + of_image,
                                 u16(tap.s * g.dilation_w),
                                 u16(tap.r * g.dilation_h),
                                 u16(tap.t * g.dilation_d)};
    if constexpr (kClusterN == 1)
      tma_load_im2col(to, p.activation, full, from);
    else if (sharing.issuer_a == u32(sharing.rank_n))
      tma_load_im2col_multicast(to, p.activation, full, from, sharing.row_ctas);
  };
  const auto next_issuer = [&] {
    if (++sharing.issuer_a == kClusterN) sharing.issuer_a = 0;
  };

  for (int load = range.begin; load < range.end; ++load) {
    if constexpr (kStationary) {
      if (filters) {
        mbarrier_arrive_expect(barriers.full(load), kBytesB);
        load_filter(p, sharing, shared + kOffsetB + load * kBytesB, barriers.full(load), tap.c * kK, tap.tap(g), k,
                    tile.image);
      }
      const u32 full = barriers.full_a(at_a.stage);
      mbarrier_wait(barriers.empty_a(at_a.stage), at_a.parity ^ 1);
      mbarrier_arrive_expect(full, kBytesA);
      load_pixels(shared + at_a.stage * kBytesA, full, tap.c * kK);
      next_issuer();
      tap.advance(g), at_a.advance();
    } else {
      const u32 full = barriers.full(at.stage), to = shared + at.stage * kBytesA,
                to_b = shared + kOffsetB + at.stage * kBytesB;
      mbarrier_wait(barriers.empty(at.stage), at.parity ^ 1);
      mbarrier_arrive_expect(full, kBytesA + kBytesB);
#pragma unroll
      for (int atom = 0; atom < kAtoms; ++atom) {
        // behind the last tap: zeros, as all behind the last channel is
        if (load * kAtoms + atom >= blocks) tap = {g.channel_blocks, 0, 0, 0};
        load_pixels(to + atom * kAtomBytesA, full, tap.c * kAtomK);
        load_filter(p, sharing, to_b, full, tap.c * kAtomK, tap.tap(g), k, tile.image, atom);
        tap.advance(g);
      }
      next_issuer();
      at.advance();
    }
  }
}

}  // namespace unisono
