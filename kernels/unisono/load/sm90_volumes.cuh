// Tiles of volumes. Im2col tiles: TMA's im2col loads of five dimensions, which walk over the pixels of all planes of a
// volume, and of all volumes, with an offset for each of a tap's three places. Halo tiles: boxes of one plane each.
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

// Where a tile's first pixel stands, seen through the filter's first tap, and the next place in k to be loaded.
template <class Kernel>
struct VolumePlace {
  const ConvParams& p;
  typename Producer<Kernel>::Sharing& sharing;
  int w, h, d, n;
  VolumeTap tap;

  static UNISONO_DEVICE VolumePlace of(const ConvParams& p, typename Producer<Kernel>::Sharing& sharing,
                                       const Tile& tile, int first_block) {
    const ConvGeometry& g = p.geometry;
    const int row = tile.tile_m * Kernel::kM, of_image = divided(row, g.by_pixels),
              pixel = row - of_image * (g.height * g.width), line = divided(pixel, g.by_width),
              plane = divided(line, g.by_plane_height);
    return {p,
            sharing,
            (pixel - line * g.width) * g.stride_w - g.pad_w,
            (line - plane * g.plane_height) * g.stride_h - g.pad_h,
            plane * g.stride_d - g.pad_d,
            tile.image + of_image,
            VolumeTap::of(g, first_block)};
  }
  // Pixels of the place in k, with channels from c.
  UNISONO_DEVICE void load_pixels(u32 to, u32 full, int c) const {
    const ConvGeometry& g = p.geometry;
    const VolumeCoordinates from{
        c, w, h, d, n, u16(tap.s * g.dilation_w), u16(tap.r * g.dilation_h), u16(tap.t * g.dilation_d)};
    if (Kernel::kClusterN == 1 || sharing.issuer_a == u32(sharing.rank_n))
      TmaLoad<(Kernel::kClusterN > 1)>::im2col(p.activation, to, full, from, sharing.row_ctas);
  }
};

template <class Kernel>
struct VolumeTiles {
  using From = Producer<Kernel>;
  static constexpr int kAtoms = Kernel::kAtoms, kAtomK = Kernel::kAtomK, kBytesA = Kernel::kBytesA,
                       kBytesB = Kernel::kBytesB;

  static UNISONO_DEVICE void load(const ConvParams& p, typename From::Sharing& sharing, u32 shared,
                                  const typename Kernel::Barriers& barriers, const Tile& tile, const Range& range,
                                  int k, bool, int&, RingPosition<Kernel::kStages>& at,
                                  RingPosition<Kernel::kStagesA>&) {
    const ConvGeometry& g = p.geometry;
    const int blocks = g.taps_h * g.taps_w * g.channel_blocks;
    auto place = VolumePlace<Kernel>::of(p, sharing, tile, range.begin * kAtoms);
    VolumeTap& tap = place.tap;
    for (int load = range.begin; load < range.end; ++load, sharing.next_a()) {
      const u32 full = barriers.full(at.stage);
      mbarrier_wait(barriers.empty(at.stage), at.parity ^ 1);
      mbarrier_arrive_expect(full, kBytesA + kBytesB);
#pragma unroll
      for (int atom = 0; atom < kAtoms; ++atom) {
        // after the last tap: zeros, as all after the last channel is
        if (load * kAtoms + atom >= blocks) tap = {g.channel_blocks, 0, 0, 0};
        place.load_pixels(shared + at.stage * kBytesA + atom * Kernel::kAtomBytesA, full, tap.c * kAtomK);
        From::load_filter(p, sharing, shared + Kernel::kOffsetB + at.stage * kBytesB, full, tap.c * kAtomK, tap.tap(g),
                          k, tile.image, atom);
        tap.advance(g);
      }
      at.advance();
    }
  }
};

// The same where filters stay: they come with the first tile, if `filters`.
template <class Kernel>
struct StationaryVolumeTiles {
  using From = Producer<Kernel>;
  static constexpr int kK = Kernel::kK, kBytesA = Kernel::kBytesA, kBytesB = Kernel::kBytesB;

  static UNISONO_DEVICE void load(const ConvParams& p, typename From::Sharing& sharing, u32 shared,
                                  const typename Kernel::Barriers& barriers, const Tile& tile, const Range& range,
                                  int k, bool filters, int&, RingPosition<Kernel::kStages>&,
                                  RingPosition<Kernel::kStagesA>& at_a) {
    const ConvGeometry& g = p.geometry;
    auto place = VolumePlace<Kernel>::of(p, sharing, tile, range.begin * Kernel::kAtoms);
    VolumeTap& tap = place.tap;
    for (int load = range.begin; load < range.end; ++load, sharing.next_a()) {
      if (filters) {
        mbarrier_arrive_expect(barriers.full(load), kBytesB);
        From::load_filter(p, sharing, shared + Kernel::kOffsetB + load * kBytesB, barriers.full(load), tap.c * kK,
                          tap.tap(g), k, tile.image);
      }
      const u32 full = barriers.full_a(at_a.stage);
      mbarrier_wait(barriers.empty_a(at_a.stage), at_a.parity ^ 1);
      mbarrier_arrive_expect(full, kBytesA);
      place.load_pixels(shared + at_a.stage * kBytesA, full, tap.c * kK);
      tap.advance(g), at_a.advance();
    }
  }
};

// Halo tiles: a filter plane's taps read one box of the input plane that it meets. Planes of zeros before the
// volume, and after it, are beyond the tensor map's extents. Loads are the channel blocks of the first filter plane,
// then of the next.
template <class Kernel>
struct VolumeHaloTiles {
  using From = Producer<Kernel>;
  static constexpr int kK = Kernel::kK, kAtoms = Kernel::kAtoms, kAtomK = Kernel::kAtomK, kBytesB = Kernel::kBytesB;

  static UNISONO_DEVICE void load(const ConvParams& p, typename From::Sharing& sharing, u32 shared,
                                  const typename Kernel::Barriers& barriers, const Tile& tile, const Range& range,
                                  int k, bool filters, int&, RingPosition<Kernel::kStages>& at,
                                  RingPosition<Kernel::kStagesA>& at_a) {
    const ConvGeometry& g = p.geometry;
    const auto rows = Kernel::Rows::of(g, tile, Kernel::kM, 0);
    const u32 bytes = kAtoms * (Kernel::kM / 8 + (g.taps_h - 1) * g.dilation_h) * Kernel::kLineBytes;
    const int w = rows.left - g.pad_w, h = rows.top - g.pad_h, d = rows.plane * g.stride_d - g.pad_d,
              taps = g.taps_h * g.taps_w;
    int t = range.begin / g.plane_taps_h, block = range.begin - t * g.plane_taps_h;
    for (int load = range.begin; load < range.end; ++load) {
      const u32 full = barriers.full_a(at_a.stage), to = shared + at_a.stage * Kernel::kBytesA;
      mbarrier_wait(barriers.empty_a(at_a.stage), at_a.parity ^ 1);
      mbarrier_arrive_expect(full, bytes);
#pragma unroll
      for (int atom = 0; atom < kAtoms; ++atom)
        if (Kernel::kClusterN == 1 || sharing.issuer_a == u32(sharing.rank_n))
          TmaLoad<(Kernel::kClusterN > 1)>::box(p.activation, to + atom * Kernel::kAtomBytesA, full,
                                                block * kK + atom * kAtomK, w, h, d + t * g.dilation_d, tile.image,
                                                sharing.row_ctas);
      sharing.next_a(), at_a.advance();
      for (int tap = 0; filters && tap < taps; ++tap, at.advance()) {
        if (!Kernel::kStationary) mbarrier_wait(barriers.empty(at.stage), at.parity ^ 1);
        mbarrier_arrive_expect(barriers.full(at.stage), kBytesB);
        From::load_step(p, sharing, shared + Kernel::kOffsetB + at.stage * kBytesB, barriers.full(at.stage), block,
                        t * taps + tap, k, tile);
      }
      if (++block == g.plane_taps_h) block = 0, ++t;
    }
  }
};

}  // namespace unisono
