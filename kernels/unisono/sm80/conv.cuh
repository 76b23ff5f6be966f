// Convolutions NHWC and products by mma.sync, for every architecture from sm_80 on. A CTA computes its tiles one after
// another: columns, main loop, epilogue. It has one or two warpgroups, which share a tile's filters; each has rows of
// its own, and its epilogue knows no other. A configuration has
//
//   using Element, Fragment            Bf16, F16 or Tf32; RowFragment, a warpgroup's, of one product or two
//   int kWarpgroups, kTileK, kStages   kTileK: elements of a step
//   int kGroup                         tile/tile_scheduler.cuh
//   using Share                        WholeTiles or SplitTiles
//   bool kPixels                       the image is read by its filter's taps; else it is a matrix
//   using Taps                         FilterTaps; PhaseTaps: of a transposed convolution, whose Rows are PhasedRows
//   using Sight                        of pixels: ImageSight or VolumeSight
//   bool kColumnsA, kColumnsB          of either operand neighbours in memory are rows, and not k
//   int kCopyA, kCopyB                 bytes that copies take
//
// and what epilogue/fragment_epilogue.cuh asks of it.
#pragma once
#include "unisono/epilogue/fragment_epilogue.cuh"
#include "unisono/ptx/grid.cuh"
#include "unisono/sm80/main_loop.cuh"
#include "unisono/sm80/shares.cuh"
#include "unisono/sm80/waiting_tiles.cuh"

namespace unisono {

template <class Config, class Visitor>
struct Sm80Conv {
  struct Params {
    Sm80ConvParams fixed;
    typename Visitor::Params visitor;
  };
  using Loop = Sm80MainLoop<Config>;
  using Tail = FragmentEpilogue<Config, Visitor>;
  using At = typename Tail::At;
  using Fragment = typename Config::Fragment;
  using Share = typename Config::Share;
  static constexpr int kThreads = Loop::kThreads, kM = Loop::kM, kN = Loop::kN;
  static constexpr shared_layout::Sm80Cta kCta{Loop::kStage, Config::kStages, Tail::kBytes, Config::kWarpgroups,
                                               Loop::kTableBytes};

  static constexpr bool kWaits = Tail::kWaits || Share::kWaits;
  static_assert(!Share::kWaits || (Config::kNorm != Norm::kStreamed && !Spills<Config>::kValue),
                "tiles that wait in memory are a CTA's own");

  static UNISONO_DEVICE Tile tile_of(const ConvGeometry& g, int index) {
    return tile_at<1, 1, Config::kGroup>(g, index, 0);
  }
  static UNISONO_DEVICE At place_of(const ConvGeometry& g, const Tile& tile, int warpgroup) {
    return {tile.image, tile.tile_m * Config::kWarpgroups + warpgroup, tile.tile_n * kN,
            Config::Rows::of(g, tile, kM, warpgroup * Fragment::kRows)};
  }
  // Ends when the epilogue may be where the stages were.
  static UNISONO_DEVICE void multiply(const Sm80ConvParams& f, int item, const Tile& tile,
                                      typename Fragment::Accumulators& acc, u8* shared) {
    const auto taps = Config::Taps::of(f, tile);
    const Range steps = Share::steps_of(f.tile.geometry, item, taps.steps(Config::kTileK));
    Loop loop;
    loop.open(f, tile, taps, steps.begin * Config::kTileK, shared + shared_layout::sm80_table_at(kCta));
    loop.run(acc, shared, steps.count());
    __syncthreads();
  }

  static UNISONO_DEVICE void run(const Params& params) {
    begin();
    UNISONO_DYNAMIC_SHARED(shared);
    const Sm80ConvParams& f = params.fixed;
    const TileParams& t = f.tile;
    const auto uniform = Visitor::uniform(params.visitor);
    if (kWaits && threadIdx.x == 0) enter_launch(t.launch);
    const u32 epoch = kWaits ? epoch_of(t.launch) : 0;
    const int warpgroup = int(threadIdx.x) / 128;
    typename Fragment::Accumulators acc;
    Tail tail{t,
              t.geometry,
              t.norm,
              params.visitor,
              uniform,
              shared + warpgroup * shared_layout::up_to(Tail::kBytes, 16),
              int(threadIdx.x) % 128,
              1 + warpgroup,
              epoch,
              acc};
    TilesThatWait<Sm80Conv, Config> tiles{tail};
    for (int i = blockIdx.x; i < Share::items(t.geometry); i += gridDim.x) {
      const Tile tile = tile_of(t.geometry, Share::tile_of(t.geometry, i));
      const At at = place_of(t.geometry, tile, warpgroup);
      typename Tail::Columns columns;
      columns.load(tail, at);
      multiply(f, i, tile, acc, shared);
      if (Share::collect(f.split, t.geometry, i, Config::kWarpgroups, tail)) tiles.add(i, at, columns);
      __syncthreads();  // the stages are where the epilogue was
    }
    tiles.end();
    if (kWaits && threadIdx.x == 0) leave_launch(t.launch);
  }
};

}  // namespace unisono
