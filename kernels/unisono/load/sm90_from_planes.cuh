// Channels first in memory: a launch converts its image NCHW and its filters KCRS into its workspace, NHWC and KRSC of
// a multiple of 8 channels, zeros after the last, where TMA loads them as any others. A shift of one pixel is 2 bytes
// of a plane, and neither TMA nor a matrix descriptor begins at other than multiples of 16: filters wider than one tap
// cannot be multiplied as planes.
//
// The work is cut into units, each of one warp: 128 channels of a filter; then, image by image, 64 pixels by 64
// channels. The first of them, all of the filters among those, are converted by all warps of the launch before anything
// else, and each CTA flags that it is done, once; the others by the spare warps of the producers' warpgroups, while the
// tiles of earlier images are multiplied, and each is flagged. A flag is the launch's epoch plus one. The producer
// waits for all CTAs, then for the units that a tile's loads read.
//
// Nobody deadlocks: a warp that converts waits for no other warp's units, and a spare warp waits for the statistics
// of an image only once it has converted its own units of that image and of all before it; they need no more.
// Streamed, it waits as well until the columns of a tile before have been used. `units_ahead` says how far beyond the
// image tiles may have to get until then: a round if a consumer group's tiles of an image share columns (the first tile
// after it frees the columns before its own), else to the end.
#pragma once
#include "unisono/load/sm90_plane_units.cuh"
#include "unisono/ptx/global.cuh"
#include "unisono/ptx/sm90_barrier.cuh"
#include "unisono/tile/tile_scheduler.cuh"

namespace unisono {

// A spare warp's share of the units that were not converted ahead, all of them of images that can be copied. The next
// one is on its way to the warp's slot while a unit's flag waits until the unit is written.
struct ConversionBeside {
  const PlaneConversion conversion;
  const u32 tag;
  int next;
  const int step;
  u8* const slot;

  UNISONO_DEVICE ConversionBeside(const PlanesToConvert& p, u32 tag, int warp, int warps, u8* slot)
      : conversion{p, int(threadIdx.x) & 31}, tag(tag), next(p.ahead + warp), step(warps), slot(slot) {
    begin();
  }
  UNISONO_DEVICE void begin() const {
    if (next < conversion.p.units) conversion.copy_image(conversion.image_unit(next), shared_address(slot));
    copy_async_commit();
  }

  UNISONO_DEVICE void until(int end) {
    const PlanesToConvert& p = conversion.p;
    while (next < end) {
      copy_async_wait<0>();
      __syncwarp();
      conversion.store_image<1>(conversion.image_unit(next), shared_address(slot));
      __syncwarp();  // the slot is read
      u32* const flag = p.flags + gridDim.x + (next - p.ahead);
      next += step;
      begin();
      fence_async_global();  // what this lane has written is read by TMA
      __syncwarp();
      if (conversion.lane != 0) continue;
      delay_point();
      store_release(flag, tag);
    }
  }
  // Before waiting for what needs image `image`: its own share of it, and of what tiles under way read meanwhile.
  UNISONO_DEVICE void through(int image) {
    const PlanesToConvert& p = conversion.p;
    const int ahead = p.units - p.filter_units - (image + 1) * p.bands * p.blocks;  // of all that there are
    until(p.units - larger(0, ahead - p.units_ahead));
  }
  UNISONO_DEVICE void finish() { until(conversion.p.units); }
};

// What the producer's warp knows to be converted. Lane 0 issues the loads, and the others wait for it: what they have
// found by then costs it no trip to memory.
struct ConvertedUnits {
  const PlanesToConvert& p;
  const u32 tag;
  int begin = 0, end = 0;  // of those that were not converted ahead: these units are

  // Flags [from, to).
  UNISONO_DEVICE void wait(int from, int to) const {
    constexpr int kAtOnce = 4;
    const int lane = int(threadIdx.x) & 31;
    if (lane == 0) return;
    Watchdog watchdog;
    delay_point();
#pragma unroll 1
    for (int flag = from + lane - 1; flag < to;) {
      bool done = true;
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i)
        if (flag + 31 * i < to) done = done & (load_relaxed(p.flags + flag + 31 * i) == tag);
      if (done) {
        flag += 31 * kAtOnce;
      } else {
        __nanosleep(100);
        watchdog.tick();
      }
    }
    fence_gpu();  // what was written before the flags
  }
  // What all CTAs have converted ahead.
  UNISONO_DEVICE void await_ahead() const { wait(0, gridDim.x); }
  // Image rows [top, bottom] of an image, as far as they exist.
  UNISONO_DEVICE void await_rows(int image, int top, int bottom) {
    top = larger(top, 0);
    const int first = p.filter_units + image * p.bands * p.blocks;
    const int from = larger(p.ahead, first + top * p.width / PlaneConversion::kPixels * p.blocks),
              to = first + divide_up(smaller((bottom + 1) * p.width, p.pixels), PlaneConversion::kPixels) * p.blocks;
    if (from >= to) return;
    const bool beyond = from < begin || from > end;
    if (beyond) begin = from;
    const int flags = int(gridDim.x) - p.ahead;
    if (beyond || to > end) wait(flags + (beyond ? from : end), flags + to), end = to;
  }
};

template <class Kernel>
UNISONO_DEVICE const PlanesToConvert& planes_of(const typename Kernel::Params& params) {
  return reinterpret_cast<const PlanesToConvert&>(params.further()[Kernel::kFurtherMaps - 1]);
}

// Before a tile's loads.
template <class Kernel>
struct ConvertedTiles {
  using Config = typename Kernel::Configuration;
  ConvertedUnits units;
  UNISONO_DEVICE explicit ConvertedTiles(const typename Kernel::Params& params)
      : units{planes_of<Kernel>(params), Kernel::epoch_of(params.fixed) + 1} {
    units.await_ahead();
  }
  // The image rows that they read are there; by the whole warp.
  UNISONO_DEVICE void await(const ConvGeometry& g, const Tile& tile) {
    int first, last;
    if constexpr (Config::kTwoDimensional) {
      first = Kernel::Rows::of(g, tile, Kernel::kM, 0).top, last = first + Kernel::kM / 8 - 1;
    } else {
      const int row = smaller(tile.tile_m * Kernel::kM, g.rows - 1);
      first = divided(row, g.by_width), last = divided(smaller(row + Kernel::kM, g.rows) - 1, g.by_width);
    }
    units.await_rows(tile.image, first * g.stride_h - g.pad_h,
                     last * g.stride_h - g.pad_h + (g.taps_h - 1) * g.dilation_h);
    __syncwarp();
    fence_async_global();
  }
};

// A launch that converts nothing has these.
struct NothingConverted {
  template <class Params>
  UNISONO_DEVICE explicit NothingConverted(const Params&) {}
};
struct NothingBeside {
  UNISONO_DEVICE void through(int) {}
  UNISONO_DEVICE void finish() {}
};
template <class Kernel, bool kFromPlanes = Kernel::kFromPlanes>
struct ConversionOf {
  using Tiles = NothingConverted;
  static UNISONO_DEVICE NothingBeside beside(const typename Kernel::Params&, u8*, int, u32) { return {}; }
  static UNISONO_DEVICE void ahead(const typename Kernel::Params&, u8*) {}
};
template <class Kernel>
struct ConversionOf<Kernel, true> {
  static_assert(Kernel::kConsumers == 2 && !Kernel::kFilledByWarps && !Kernel::kDirect && !Kernel::kGrouped &&
                    !Kernel::kPhases && !Kernel::kFiltersAhead && !Kernel::Operands::kVolumes &&
                    !Kernel::Operands::kBatched && Kernel::kProducts == 1,
                "an image and its filters are converted, by warps that have registers for it");
  using Tiles = ConvertedTiles<Kernel>;
  // The share of a spare warp, one of three in each CTA.
  static UNISONO_DEVICE auto beside(const typename Kernel::Params& params, u8* memory, int warp, u32 epoch) {
    if constexpr (Kernel::Operands::kSlotsBeside > 0)
      return ConversionBeside(planes_of<Kernel>(params), epoch + 1, int(blockIdx.x * 3) + warp, int(gridDim.x * 3),
                              memory + Kernel::kLayout.at_units + warp * kConvertedSlotBytes);
    else
      return NothingBeside{};
  }
  // By all threads, in memory that is not yet any stage's; nothing there is initialised.
  static UNISONO_DEVICE void ahead(const typename Kernel::Params& params, u8* memory) {
    constexpr int kSlots = Kernel::kOffsetSecond / kConvertedSlotBytes,  // that there is room for
        kWarps = smaller(Kernel::kThreads / 32, kSlots);
    static_assert(kWarps > 0, "a stage has as much room as a unit");
    constexpr int kEach = smaller(3, kSlots / kWarps);
    const int warp = threadIdx.x / 32;
    const PlanesToConvert& planes = planes_of<Kernel>(params);
    if (warp < kWarps)
      PlaneConversion{planes, int(threadIdx.x) & 31}.convert_ahead<kEach>(warp, kWarps,
                                                                          memory + warp * kEach * kConvertedSlotBytes);
    fence_async_global();  // what this thread has written is read by TMA, and its slots were used
    fence_async_shared();
    __syncthreads();
    if (threadIdx.x != 0) return;
    delay_point();
    store_release(planes.flags + blockIdx.x, Kernel::epoch_of(params.fixed) + 1);
  }
};

}  // namespace unisono
