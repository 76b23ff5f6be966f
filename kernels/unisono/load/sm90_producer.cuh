// What fills the stages of ConvFprop: TMA's loads, issued by one thread, or ordinary loads by a warpgroup.
#pragma once
#include "unisono/load/sm90_explicit_im2col.cuh"
#include "unisono/load/sm90_from_planes.cuh"
#include "unisono/load/sm90_gather.cuh"
#include "unisono/load/sm90_sharing.cuh"
#include "unisono/tile/tile_scheduler.cuh"

namespace unisono {

// What loads a tile's activations, and filters with them: HaloTiles of load/sm90_halo_tiles.cuh, or of
// load/sm90_im2col_tiles.cuh Im2colTiles, or StationaryTiles where filters stay; of volumes those of
// load/sm90_volumes.cuh.
template <class Kernel>
struct TilesOf;

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

  using Sharing = ClusterLoads<kClusterM, kClusterN>;
  using FilterLoad = TmaLoad<(kClusterM > 1)>;
  using PixelLoad = TmaLoad<(kClusterN > 1), Kernel::kHints>;

  // A step's filters from k on: their channels from c·kK.
  static UNISONO_DEVICE void load_step(const ConvParams& p, Sharing& sharing, u32 to, u32 full, int c, int tap, int k,
                                       const Tile& tile) {
    if (kPhases) return load_phase_filter(p, sharing, to, full, c * kK, tap, k, tile.phase);
#pragma unroll
    for (int atom = 0; atom < kAtoms; ++atom)
      load_filter(p, sharing, to, full, c * kK + atom * kAtomK, tap, k, tile.image, atom);
  }

  // An atom of a step (boxes of columns: with the first, all of it). Filters from k, their channels from c: of one tap,
  // or of the image's own matrix.
  static UNISONO_DEVICE void load_filter(const ConvParams& p, Sharing& sharing, u32 to, u32 full, int c, int tap, int k,
                                         int image, int atom = 0) {
    if constexpr (Operands::kFlipped) tap = p.geometry.taps_h * p.geometry.taps_w - 1 - tap;
    if (kClusterM == 1 || sharing.issuer_b == u32(sharing.rank_m)) {
      load_boxes(p.filter, sharing, to, full, c, tap, k, image, atom);
      if constexpr (Kernel::kProducts > 1) {  // in an atom the columns of both products
        constexpr int kFirst = Operands::kColumnsB ? kN / 64 * kBoxBytes : kN * Kernel::kRowBytes;
        load_boxes(second_filter(p), sharing, to + kFirst, full, c, tap, k, image, atom);
      }
    }
    if (atom == kAtoms - 1) sharing.next_b();
  }
  // What `map` has of them.
  static UNISONO_DEVICE void load_boxes(const TensorMap& map, const Sharing& sharing, u32 to, u32 full, int c, int tap,
                                        int k, int image, int atom) {
    if constexpr (Operands::kFlipped) {
#pragma unroll
      for (int i = 0; i < divide_up(kN, 64); ++i)
        FilterLoad::box(map, to + i * kBoxBytes + atom * (kAtomK * 128), full, k + 64 * i, tap, c, sharing.column_ctas);
    } else if constexpr (Operands::kColumnsB) {
#pragma unroll
      for (int i = 0; i < divide_up(kN, 64) && atom == 0; ++i)
        FilterLoad::box(map, to + i * kBoxBytes, full, k + 64 * i, c, image, sharing.column_ctas);
    } else if constexpr (Operands::kBatched) {
      FilterLoad::box(map, to + atom * kAtomBytesB, full, c, k, image, sharing.column_ctas);
    } else {
      FilterLoad::box(map, to + atom * kAtomBytesB, full, c, tap, k, sharing.column_ctas);
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
        FilterLoad::box(p.filter, to + i * kBoxBytes, full, k + 64 * i, s, r, c, sharing.column_ctas);
    }
    sharing.next_b();
  }

  // The part of operand i, unless it is fetched, that lies under a tile, on its way to L2 while the
  // tile is multiplied.
  template <int i>
  static UNISONO_DEVICE void prefetch_tensor(const Params& params, const Tile& tile, int lane);

  // k-steps of the CTA's first item whose filters are loaded ahead: as many as there are stages for them.
  static UNISONO_DEVICE int steps_ahead(const ConvGeometry& g, const Range& range) {
    return kFiltersAhead ? smaller(kStages, range.count() * (kHaloTile ? g.taps_h * g.taps_w : 1)) : 0;
  }

  // Whether the filters of the next k-step were loaded ahead; their turn at issuing is then over, too.
  static UNISONO_DEVICE bool take_ahead(int& ahead, Sharing& sharing) {
    if (!kFiltersAhead) return false;
    if (ahead == 0) return false;
    --ahead;
    sharing.next_b();
    return true;
  }

  // By one thread, before the launches ahead have ended, which may still write the activations: the filters of the
  // first k-steps. Where the operands share stages, the activations that follow are part of what these expect.
  static UNISONO_DEVICE void load_filters_ahead(const ConvParams& p, u32 shared, const Barriers& barriers, int rank);

  // By one thread; with operands to prefetch, or to wait for, by a warp, whose other lanes stay one item ahead.
  static UNISONO_DEVICE void run(const Params& params, u32 shared, const Barriers& barriers, int rank) {
    const ConvParams& p = params.fixed;
    const ConvGeometry& g = p.geometry;
    Sharing sharing(rank);
    RingPosition<kStages> at(0);
    RingPosition<kStagesA> at_a(0);
    typename ConversionOf<Kernel>::Tiles converted(params);
    int ahead = steps_ahead(g, Kernel::loads_of(g, blockIdx.x / kClusterCtas));
    for (int item = blockIdx.x / kClusterCtas; item < Kernel::items(g); item += gridDim.x / kClusterCtas) {
      const Tile tile =
          tile_at<kClusterM, kClusterN, kGroup, kPhases, Kernel::Voids::kAny>(g, Kernel::tile_of(g, item), rank);
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
      TilesOf<Kernel>::Type::load(p, sharing, shared, barriers, tile, range, k, filters, ahead, at, at_a);
    }
  }

  // Windows by TMA, which the producer's warps take turns at asking for; rows by all of them.
  static UNISONO_DEVICE void explicit_im2col(const Params& params, u8* memory, const Barriers& barriers);

  // By ordinary loads: of pixels, and of filters where TMA cannot load those either.
  static UNISONO_DEVICE void gather(const Params& params, u8* memory, const Barriers& barriers);
};

}  // namespace unisono
