// Loads tiles of consecutive output pixels, one tap at a time: by TMA's im2col mode (four dimensions) or, for products,
// as boxes of rows or columns. A stage also holds the filters, unless these are stationary.
#pragma once
#include "unisono/load/sm90_halo_tiles.cuh"
#include "unisono/load/sm90_volumes.cuh"

namespace unisono {

// The input position that the first tap reads for a tile's first pixel, and the next place in k, which runs over blocks
// of channels, then taps.
template <class Kernel>
struct Im2colPlace {
  int row, of_image, w, h;
  int c, r, s;

  static UNISONO_DEVICE Im2colPlace of(const ConvGeometry& g, const Tile& tile, int block) {
    const int row = tile.tile_m * Kernel::kM, of_image = divided(row, g.by_pixels),
              pixel = row - of_image * (g.height * g.width), line = divided(pixel, g.by_width);
    return {row,
            of_image,
            (pixel - line * g.width) * g.stride_w - g.pad_w,
            line * g.stride_h - g.pad_h,
            block % g.channel_blocks,
            block / g.channel_blocks / g.taps_w,
            block / g.channel_blocks % g.taps_w};
  }
  UNISONO_DEVICE void advance(const ConvGeometry& g) {
    if (++c == g.channel_blocks) {
      c = 0;
      if (++s == g.taps_w) s = 0, ++r;
    }
  }
  UNISONO_DEVICE Im2colCoordinates from(const ConvGeometry& g, const Tile& tile, int first) const {
    return {first + c * Kernel::kAtomK, w, h, tile.image + of_image, u16(s * g.dilation_w), u16(r * g.dilation_h)};
  }

  // An im2col tile, or columns of A; of boxes of columns with the first atom all.
  template <class Sharing>
  static UNISONO_DEVICE void load(const ConvParams& p, Sharing& sharing, u32 to, u32 full,
                                  const Im2colCoordinates& from, int row, int image, int atom) {
    using Load = typename Producer<Kernel>::PixelLoad;
    if (Kernel::kClusterN == 1 || sharing.issuer_a == u32(sharing.rank_n)) {
      if constexpr (Kernel::Operands::kColumnsA) {
#pragma unroll
        for (int i = 0; i < Kernel::kM / 64 && atom == 0; ++i)
          Load::box(p.activation, to + i * Kernel::kBoxBytes, full, row + 64 * i, from.c, from.n, sharing.row_ctas);
      } else if constexpr (Kernel::Operands::kRowsA) {
        Load::box(p.activation, to + atom * Kernel::kAtomBytesA, full, from.c, row, image, sharing.row_ctas);
      } else {
        Load::im2col(p.activation, to + atom * Kernel::kAtomBytesA, full, from, sharing.row_ctas);
      }
    }
    if (atom == Kernel::kAtoms - 1) sharing.next_a();
  }
};

// A tile's, with filters next to them; but for the next `ahead`, which are there.
template <class Kernel>
struct Im2colTiles {
  using From = Producer<Kernel>;
  using Place = Im2colPlace<Kernel>;

  static UNISONO_DEVICE void load(const ConvParams& p, typename From::Sharing& sharing, u32 shared,
                                  const typename Kernel::Barriers& barriers, const Tile& tile, const Range& range,
                                  int k, bool, int& ahead, RingPosition<Kernel::kStages>& at,
                                  RingPosition<Kernel::kStagesA>&) {
    const ConvGeometry& g = p.geometry;
    Place place = Place::of(g, tile, range.begin * Kernel::kAtoms);
    for (int load = range.begin; load < range.end; ++load) {
      const Im2colCoordinates from = place.from(g, tile, Kernel::Operands::first_channel(k));
      const u32 full = barriers.full(at.stage), to = shared + at.stage * Kernel::kBytesA;
      // A stage whose filter was ahead is free, and full without this CTA where others load its A: its readers may
      // have left it already, and a wait for the phase before would then be one for the next
      const bool filter_was_ahead = From::take_ahead(ahead, sharing);
      if (!filter_was_ahead) mbarrier_wait(barriers.empty(at.stage), at.parity ^ 1);
      if (!filter_was_ahead) mbarrier_arrive_expect(full, Kernel::kBytesA + Kernel::kBytesB);
      Place::load(p, sharing, to, full, from, place.row, tile.image, 0);
      if (!filter_was_ahead)
        From::load_filter(p, sharing, shared + Kernel::kOffsetB + at.stage * Kernel::kBytesB, full,
                          place.c * Kernel::kAtomK, place.r * g.taps_w + place.s, k, tile.image);
      if constexpr (Kernel::kAtoms > 1) {
        place.advance(g);
        if (place.r == g.taps_h)
          place.c = g.channel_blocks, place.r = 0;  // after the last tap: zeros, as all after the last channel is
        const Im2colCoordinates next = place.from(g, tile, 0);
        Place::load(p, sharing, to, full, next, place.row, tile.image, 1);
        if (!filter_was_ahead)
          From::load_filter(p, sharing, shared + Kernel::kOffsetB + at.stage * Kernel::kBytesB, full, next.c,
                            place.r * g.taps_w + place.s, k, tile.image, 1);
      }
      at.advance();
      place.advance(g);
    }
  }
};

// The same where filters stay: they come with the first tile, if `filters`.
template <class Kernel>
struct StationaryTiles {
  using From = Producer<Kernel>;
  using Place = Im2colPlace<Kernel>;

  static UNISONO_DEVICE void load(const ConvParams& p, typename From::Sharing& sharing, u32 shared,
                                  const typename Kernel::Barriers& barriers, const Tile& tile, const Range& range,
                                  int k, bool filters, int& ahead, RingPosition<Kernel::kStages>&,
                                  RingPosition<Kernel::kStagesA>& at_a) {
    const ConvGeometry& g = p.geometry;
    Place place = Place::of(g, tile, range.begin * Kernel::kAtoms);
    for (int load = range.begin; load < range.end; ++load) {
      const Im2colCoordinates from = place.from(g, tile, Kernel::Operands::first_channel(k));
      if (filters && !From::take_ahead(ahead, sharing)) {
        mbarrier_arrive_expect(barriers.full(load), Kernel::kBytesB);
        From::load_filter(p, sharing, shared + Kernel::kOffsetB + load * Kernel::kBytesB, barriers.full(load),
                          place.c * Kernel::kK, place.r * g.taps_w + place.s, k, tile.image);
      }
      const u32 full = barriers.full_a(at_a.stage);
      mbarrier_wait(barriers.empty_a(at_a.stage), at_a.parity ^ 1);
      mbarrier_arrive_expect(full, Kernel::kBytesA);
      Place::load(p, sharing, shared + at_a.stage * Kernel::kBytesA, full, from, place.row, tile.image, 0);
      at_a.advance();
      place.advance(g);
    }
  }
};

template <bool kHalo, bool kVolumes, bool kStationary, class Kernel>
struct TilesBy {
  using Type = HaloTiles<Kernel>;
};
template <class Kernel>
struct TilesBy<false, false, false, Kernel> {
  using Type = Im2colTiles<Kernel>;
};
template <class Kernel>
struct TilesBy<false, false, true, Kernel> {
  using Type = StationaryTiles<Kernel>;
};
template <class Kernel>
struct TilesBy<false, true, false, Kernel> {
  using Type = VolumeTiles<Kernel>;
};
template <class Kernel>
struct TilesBy<false, true, true, Kernel> {
  using Type = StationaryVolumeTiles<Kernel>;
};
template <bool kStationary, class Kernel>
struct TilesBy<true, true, kStationary, Kernel> {
  using Type = VolumeHaloTiles<Kernel>;
};
template <class Kernel>
struct TilesOf : TilesBy<Kernel::kHaloTile, Kernel::Operands::kVolumes, Kernel::kStationary, Kernel> {};

}  // namespace unisono
