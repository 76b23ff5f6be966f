// What fills the stages of ConvFprop: TMA's loads, issued by one thread, or ordinary loads by a warpgroup.
#pragma once
#include "unisono/load/sm90_explicit_im2col.cuh"
#include "unisono/load/sm90_from_planes.cuh"
#include "unisono/load/sm90_gather.cuh"
#include "unisono/ptx/sm90_tma.cuh"
#include "unisono/tile/tile_scheduler.cuh"

namespace unisono {

template <class Kernel>
struct Producer {
  using Config = typename Kernel::Configuration;
  using Visitor = typename Kernel::EpilogueVisitor;
  using Operands = typename Kernel::Operands;
  using Rows = typename Kernel::Rows;
  using Params = typename Kernel::Params;
  using Barriers = typename Kernel::Barriers;
  using Gatherer = typename Kernel::Gatherer;
  static constexpr int kM = Kernel::kM, kN = Kernel::kN, kK = Kernel::kK, kGroup = Kernel::kGroup;
  static constexpr int kStages = Kernel::kStages, kStagesA = Kernel::kStagesA, kBytesA = Kernel::kBytesA,
                       kBytesB = Kernel::kBytesB;
  static constexpr int kAtoms = Kernel::kAtoms, kAtomK = Kernel::kAtomK, kAtomBytesA = Kernel::kAtomBytesA,
                       kAtomBytesB = Kernel::kAtomBytesB;
  static constexpr int kBoxBytes = Kernel::kBoxBytes, kLineBytes = Kernel::kLineBytes, kOffsetB = Kernel::kOffsetB,
                       kOffsetTable = Kernel::kOffsetTable;
  static constexpr int kClusterM = Kernel::kClusterM, kClusterN = Kernel::kClusterN,
                       kClusterCtas = Kernel::kClusterCtas, kPrefetches = Kernel::kPrefetches;
  static constexpr bool kStationary = Kernel::kStationary, kHaloTile = Kernel::kHaloTile, kSplit = Kernel::kSplit,
                        kPhases = Kernel::kPhases, kGrouped = Kernel::kGrouped, kFiltersAhead = Kernel::kFiltersAhead;

  // What a CTA's loads share with the rest of its cluster; its CTAs take turns at issuing them.
  struct Sharing {
    int rank_m, rank_n;
    u16 row_ctas, column_ctas;  // the CTAs that share this one's activations, and its filters
    u32 issuer_a, issuer_b;     // whose turn it is
    UNISONO_DEVICE explicit Sharing(int rank)
        : rank_m(rank / kClusterN), rank_n(rank % kClusterN), row_ctas(0), column_ctas(0), issuer_a(0), issuer_b(0) {
      for (int i = 0; i < kClusterN; ++i) row_ctas |= 1 << (rank_m * kClusterN + i);
      for (int i = 0; i < kClusterM; ++i) column_ctas |= 1 << (i * kClusterN + rank_n);
    }
  };

  template <bool kShared>
  static UNISONO_DEVICE void load_box(const TensorMap& map, u32 to, u32 full, int x, int y, int z, u16 ctas) {
    if constexpr (kShared)
      tma_load_3d_multicast(to, map, full, x, y, z, ctas);
    else
      tma_load_3d(to, map, full, x, y, z);
  }

  // An atom of a step (boxes of columns: with the first, all of it). Filters from k, their channels from c: of one tap,
  // or of the image's own matrix.
  static UNISONO_DEVICE void load_filter(const ConvParams& p, Sharing& sharing, u32 to, u32 full, int c, int tap, int k,
                                         int image, int atom = 0) {
    if (kClusterM == 1 || sharing.issuer_b == u32(sharing.rank_m)) {
      load_boxes(p.filter, sharing, to, full, c, tap, k, image, atom);
      if constexpr (Kernel::kProducts > 1) {  // in an atom the columns of both products
        constexpr int kFirst = Operands::kColumnsB ? kN / 64 * kBoxBytes : kN * Kernel::kRowBytes;
        load_boxes(second_filter(p), sharing, to + kFirst, full, c, tap, k, image, atom);
      }
    }
    if (atom == kAtoms - 1 && ++sharing.issuer_b == kClusterM) sharing.issuer_b = 0;
  }
  // What `map` has of them.
  static UNISONO_DEVICE void load_boxes(const TensorMap& map, const Sharing& sharing, u32 to, u32 full, int c, int tap,
                                        int k, int image, int atom) {
    constexpr bool kShared = kClusterM > 1;
    if constexpr (Operands::kColumnsB) {
#pragma unroll
      for (int i = 0; i < divide_up(kN, 64) && atom == 0; ++i)
        load_box<kShared>(map, to + i * kBoxBytes, full, k + 64 * i, c, image, sharing.column_ctas);
    } else if constexpr (Operands::kBatched) {
      load_box<kShared>(map, to + atom * kAtomBytesB, full, c, k, image, sharing.column_ctas);
    } else {
      load_box<kShared>(map, to + atom * kAtomBytesB, full, c, tap, k, sharing.column_ctas);
    }
  }
  // The parameter begins with ConvParams.
  static UNISONO_DEVICE const TensorMap& second_filter(const ConvParams& p) {
    return reinterpret_cast<const Params&>(p).further()[Kernel::kFurtherMaps - 1];
  }

  // The same of a phase, one of (C, R, S, K).
  static UNISONO_DEVICE void load_phase_filter(const ConvParams& p, Sharing& sharing, u32 to, u32 full, int c, int tap,
                                               int k, int phase) {
    const ConvGeometry& g = p.geometry;
    const int r = (phase / 2 + g.pad_h) % 2 + 2 * (g.taps_h - 1 - tap / g.taps_w),
              s = (phase % 2 + g.pad_w) % 2 + 2 * (g.taps_w - 1 - tap % g.taps_w);
    if (kClusterM == 1 || sharing.issuer_b == u32(sharing.rank_m)) {
#pragma unroll
      for (int i = 0; i < divide_up(kN, 64); ++i)
        if constexpr (kClusterM > 1)
          tma_load_4d_multicast(to + i * kBoxBytes, p.filter, full, k + 64 * i, s, r, c, sharing.column_ctas);
        else
          tma_load_4d(to + i * kBoxBytes, p.filter, full, k + 64 * i, s, r, c);
    }
    if (++sharing.issuer_b == kClusterM) sharing.issuer_b = 0;
  }

  // A box of the image, which this CTA alone reads.
  static UNISONO_DEVICE void load_activations(const ConvParams& p, u32 to, u32 full, int c, int w, int h, int image) {
    with_hint<Kernel::kHints>(kEvictFirst,
                              [&](auto... hint) { tma_load_4d(to, p.activation, full, c, w, h, image, hint...); });
  }

  // An im2col tile, or columns of A; atoms as above.
  static UNISONO_DEVICE void load_im2col_tile(const ConvParams& p, Sharing& sharing, u32 to, u32 full,
                                              const Im2colCoordinates& from, int row, int image, int atom) {
    constexpr bool kShared = kClusterN > 1;
    if (!kShared || sharing.issuer_a == u32(sharing.rank_n)) {
      if constexpr (Operands::kColumnsA) {
#pragma unroll
        for (int i = 0; i < kM / 64 && atom == 0; ++i)
          load_box<kShared>(p.activation, to + i * kBoxBytes, full, row + 64 * i, from.c, from.n, sharing.row_ctas);
      } else if constexpr (Operands::kRowsA) {
        load_box<kShared>(p.activation, to + atom * kAtomBytesA, full, from.c, row, image, sharing.row_ctas);
      } else if constexpr (kShared) {
        tma_load_im2col_multicast(to + atom * kAtomBytesA, p.activation, full, from, sharing.row_ctas);
      } else {
        with_hint<Kernel::kHints>(kEvictFirst, [&](auto... hint) {
          tma_load_im2col(to + atom * kAtomBytesA, p.activation, full, from, hint...);
        });
      }
    }
    if (atom == kAtoms - 1 && ++sharing.issuer_a == kClusterN) sharing.issuer_a = 0;
  }

  // The part of operand i, unless it is fetched, that lies under a tile, on its way to L2 while the
  // tile is multiplied.
  template <int i>
  static UNISONO_DEVICE void prefetch_tensor(const Params& params, const Tile& tile, int lane);

  // The first channel of the image that filters from k on read.
  static UNISONO_DEVICE int first_channel(int k) {
    if constexpr (kGrouped)
      return k / Operands::kGroupFilters * Operands::kGroupChannels;
    else
      return 0;
  }

  // k-steps of the CTA's first item whose filters are loaded ahead: as many as there are stages for them.
  static UNISONO_DEVICE int steps_ahead(const ConvGeometry& g, const Range& range) {
    return kFiltersAhead ? smaller(kStages, range.count() * (kHaloTile ? g.taps_h * g.taps_w : 1)) : 0;
  }

  // Whether the filters of the next k-step were loaded ahead; their turn at issuing is then over, too.
  static UNISONO_DEVICE bool take_ahead(int& ahead, Sharing& sharing);

  // By one thread, before the launches ahead have ended, which may still write the activations: the filters of the
  // first k-steps. Where the operands share stages, the activations that follow are part of what these expect.
  static UNISONO_DEVICE void load_filters_ahead(const ConvParams& p, u32 shared, const Barriers& barriers, int rank);

  // A tile's halo tiles, and for each the filters of all taps, if `filters`; but for the next `ahead`, which are there.
  static UNISONO_DEVICE void load_halo_tiles(const ConvParams& p, Sharing& sharing, u32 shared,
                                             const Barriers& barriers, const Tile& tile, const Range& range, int k,
                                             bool filters, int& ahead, RingPosition<kStages>& at,
                                             RingPosition<kStagesA>& at_a) {
    const ConvGeometry& g = p.geometry;
    const Rows rows = Rows::of(g, tile, kM, 0);
    const u32 bytes = kAtoms * (kM / 8 + (g.taps_h - 1) * g.dilation_h) * kLineBytes;
    int w = rows.left - g.pad_w, h = rows.top - g.pad_h, first = first_channel(k);
    if constexpr (kPhases)
      w = rows.left + (tile.phase % 2 + g.pad_w) / 2 - g.taps_w + 1,
      h = rows.top + (tile.phase / 2 + g.pad_h) / 2 - g.taps_h + 1;
    for (int c = range.begin; c < range.end; ++c) {
      const u32 full = barriers.full_a(at_a.stage), to = shared + at_a.stage * kBytesA;
      mbarrier_wait(barriers.empty_a(at_a.stage), at_a.parity ^ 1);
      mbarrier_arrive_expect(full, bytes);
#pragma unroll
      for (int atom = 0; atom < kAtoms; ++atom)
        if constexpr (kClusterN == 1)
          load_activations(p, to + atom * kAtomBytesA, full, first + c * kK + atom * kAtomK, w, h, tile.image);
        else if (sharing.issuer_a == u32(sharing.rank_n))
          tma_load_4d_multicast(to + atom * kAtomBytesA, p.activation, full, c * kK + atom * kAtomK, w, h, tile.image,
                                sharing.row_ctas);
      if (++sharing.issuer_a == kClusterN) sharing.issuer_a = 0;
      at_a.advance();
      for (int tap = 0; filters && tap < g.taps_h * g.taps_w; ++tap, at.advance()) {
        if (take_ahead(ahead, sharing)) continue;
        if constexpr (!kStationary) mbarrier_wait(barriers.empty(at.stage), at.parity ^ 1);
        mbarrier_arrive_expect(barriers.full(at.stage), kBytesB);
        if constexpr (kPhases)
          load_phase_filter(p, sharing, shared + kOffsetB + at.stage * kBytesB, barriers.full(at.stage), c * kK, tap, k,
                            tile.phase);
        else {
#pragma unroll
          for (int atom = 0; atom < kAtoms; ++atom)
            load_filter(p, sharing, shared + kOffsetB + at.stage * kBytesB, barriers.full(at.stage),
                        c * kK + atom * kAtomK, tap, k, tile.image, atom);
        }
      }
    }
  }

  // A tile's im2col tiles, and filters beside them; but for the next `ahead`, which are there.
  static UNISONO_DEVICE void load_im2col_tiles(const ConvParams& p, Sharing& sharing, u32 shared,
                                               const Barriers& barriers, const Tile& tile, const Range& range, int k,
                                               bool filters, int& ahead, RingPosition<kStages>& at,
                                               RingPosition<kStagesA>& at_a) {
    const ConvGeometry& g = p.geometry;
    const int row = tile.tile_m * kM, of_image = divided(row, g.by_pixels),
              pixel = row - of_image * (g.height * g.width), line = divided(pixel, g.by_width);
    const int w = (pixel - line * g.width) * g.stride_w - g.pad_w, h = line * g.stride_h - g.pad_h;
    const int first = range.begin * kAtoms;
    int c = first % g.channel_blocks, r = first / g.channel_blocks / g.taps_w, s = first / g.channel_blocks % g.taps_w;
    for (int load = range.begin; load < range.end; ++load) {
      const Im2colCoordinates from{first_channel(k) + c * kAtomK, w, h, tile.image + of_image, u16(s * g.dilation_w),
                                   u16(r * g.dilation_h)};
      if constexpr (kStationary) {
        if (filters && !take_ahead(ahead, sharing)) {
          mbarrier_arrive_expect(barriers.full(load), kBytesB);
          load_filter(p, sharing, shared + kOffsetB + load * kBytesB, barriers.full(load), c * kK, r * g.taps_w + s, k,
                      tile.image);
        }
        const u32 full = barriers.full_a(at_a.stage);
        mbarrier_wait(barriers.empty_a(at_a.stage), at_a.parity ^ 1);
        mbarrier_arrive_expect(full, kBytesA);
        load_im2col_tile(p, sharing, shared + at_a.stage * kBytesA, full, from, row, tile.image, 0);
        at_a.advance();
      } else {
        const u32 full = barriers.full(at.stage), to = shared + at.stage * kBytesA;
        // A stage whose filter was ahead is free, and full without this CTA where others load its A: its readers may
        // have left it already, and a wait for the phase before would then be one for the next
        const bool filter_was_ahead = take_ahead(ahead, sharing);
        if (!filter_was_ahead) mbarrier_wait(barriers.empty(at.stage), at.parity ^ 1);
        if (!filter_was_ahead) mbarrier_arrive_expect(full, kBytesA + kBytesB);
        load_im2col_tile(p, sharing, to, full, from, row, tile.image, 0);
        if (!filter_was_ahead)
          load_filter(p, sharing, shared + kOffsetB + at.stage * kBytesB, full, c * kAtomK, r * g.taps_w + s, k,
                      tile.image);
        if constexpr (kAtoms > 1) {
          if (++c == g.channel_blocks) {
            c = 0;
            if (++s == g.taps_w) s = 0, ++r;
          }
          if (r == g.taps_h)
            c = g.channel_blocks, r = 0;  // behind the last tap: zeros, as all behind the last channel is
          const Im2colCoordinates next{c * kAtomK, w, h, from.n, u16(s * g.dilation_w), u16(r * g.dilation_h)};
          load_im2col_tile(p, sharing, to, full, next, row, tile.image, 1);
          if (!filter_was_ahead)
            load_filter(p, sharing, shared + kOffsetB + at.stage * kBytesB, full, next.c, r * g.taps_w + s, k,
                        tile.image, 1);
        }
        at.advance();
      }
      if (++c == g.channel_blocks) {
        c = 0;
        if (++s == g.taps_w) s = 0, ++r;
      }
    }
  }

  // The same of volumes, by im2col tiles of five dimensions.
  static UNISONO_DEVICE void load_volume_tiles(const ConvParams& p, Sharing& sharing, u32 shared,
                                               const Barriers& barriers, const Tile& tile, const Range& range, int k,
                                               bool filters, RingPosition<kStages>& at, RingPosition<kStagesA>& at_a);

  // By one thread; with operands to prefetch, or to wait for, by a warp, whose other lanes stay one item ahead of it.
  static UNISONO_DEVICE void run(const Params& params, u32 shared, const Barriers& barriers, int rank) {
    const ConvParams& p = params.fixed;
    const ConvGeometry& g = p.geometry;
    Sharing sharing(rank);
    RingPosition<kStages> at(0);
    RingPosition<kStagesA> at_a(0);
    typename ConversionOf<Kernel>::Tiles converted(params);
    int ahead = steps_ahead(g, Kernel::loads_of(g, blockIdx.x / kClusterCtas));
    for (int item = blockIdx.x / kClusterCtas; item < Kernel::items(g); item += gridDim.x / kClusterCtas) {
      const Tile tile = tile_at<kClusterM, kClusterN, kGroup, kPhases>(g, Kernel::tile_of(g, item), rank);
      if constexpr (kPrefetches > 0) {
        if (!kSplit || Kernel::part(g, item) == 0)
          for_indices<0, kPrefetches>([&](auto i) { prefetch_tensor<i.kValue>(params, tile, int(threadIdx.x)); });
        __syncwarp();
        if (threadIdx.x > 0) continue;
      }
      if constexpr (Kernel::kFromPlanes)
        if (converted.await(g, tile); threadIdx.x > 0) continue;
      const Range range = Kernel::loads_of(g, item);
      const int k = tile.tile_n * kN;
      const bool filters =
          !kStationary || (!kGrouped && item == int(blockIdx.x / kClusterCtas));  // else they are there
      if constexpr (kHaloTile)
        load_halo_tiles(p, sharing, shared, barriers, tile, range, k, filters, ahead, at, at_a);
      else if constexpr (Operands::kVolumes)
        load_volume_tiles(p, sharing, shared, barriers, tile, range, k, filters, at, at_a);
      else
        load_im2col_tiles(p, sharing, shared, barriers, tile, range, k, filters, ahead, at, at_a);
    }
  }

  // Windows by TMA, which the producer's warps take turns at asking for; rows by all of them.
  static UNISONO_DEVICE void explicit_im2col(const Params& params, u8* memory, const Barriers& barriers);

  // By ordinary loads: of pixels, and of filters where TMA cannot load those either.
  static UNISONO_DEVICE void gather(const Params& params, u8* memory, const Barriers& barriers);
};

}  // namespace unisono
