// Channels first in memory: a launch converts its image NCHW and its filters KCRS into its workspace, NHWC and KRSC of
// a multiple of 8 channels, zeros behind the last, where TMA loads them as any others. A shift of one pixel is 2 bytes
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
// behind it frees the columns before its own), else to the end.
#pragma once
#include "unisono/ptx/global.cuh"
#include "unisono/ptx/sm90_barrier.cuh"
#include "unisono/tile/tile_scheduler.cuh"

namespace unisono {

struct PlaneConversion {
  static constexpr int kPixels = kConvertedPixels, kChannels = kConvertedChannels;  // of an image's unit
  static constexpr int kLane = 8;                                                   // pixels, and lanes across channels

  const PlanesToConvert& p;
  const int lane;

  // Eight pixels from `pixel` on of the channel at `plane`, in pairs; zeros behind the last.
  UNISONO_DEVICE void load_row(u32 (&row)[4], const u16* plane, int pixel, bool exists) const {
    if (p.pixels % 8 == 0) {
      const uint4 all = exists ? *reinterpret_cast<const uint4*>(plane + pixel) : uint4{};
      row[0] = all.x, row[1] = all.y, row[2] = all.z, row[3] = all.w;
      return;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const u32 low = exists && pixel + 2 * i < p.pixels ? plane[pixel + 2 * i] : 0,
                high = exists && pixel + 2 * i + 1 < p.pixels ? plane[pixel + 2 * i + 1] : 0;
      row[i] = low | high << 16;
    }
  }

  // 32 pixels from `first` on by 8 kEach channels: a lane has kEach channels of eight pixels, loads these of a channel
  // at once, and stores its channels of a pixel.
  template <int kEach>
  UNISONO_DEVICE void transpose(int image, int first, int first_channel) const {
    const int pixel = first + lane / kLane * kLane, channel = first_channel + lane % kLane * kEach;
    const u16* from = static_cast<const u16*>(p.image) + (u64(image) * p.channels + channel) * u32(p.pixels);
    u32 rows[kEach][4];
#pragma unroll
    for (int c = 0; c < kEach; ++c, from += p.pixels)
      load_row(rows[c], from, pixel, pixel < p.pixels && channel + c < p.channels);
    if (channel >= p.padded) return;
    u16* to = static_cast<u16*>(p.image_to) + (u64(image) * p.pixels + pixel) * u32(p.padded) + channel;
#pragma unroll
    for (int i = 0; i < kLane; ++i, to += p.padded) {
      const auto pair = [&](int c) {
        return __byte_perm(rows[c][i / 2], rows[c + 1][i / 2], i % 2 == 0 ? 0x5410 : 0x7632);
      };
      if (pixel + i >= p.pixels) continue;
      if constexpr (kEach == 8)
        *reinterpret_cast<uint4*>(to) = {pair(0), pair(2), pair(4), pair(6)};
      else
        *reinterpret_cast<uint2*>(to) = {pair(0), pair(2)};
    }
  }

  template <int kEach>
  UNISONO_DEVICE void convert_image(int unit) const {
    const int index = unit - p.filter_units, row = divided(index, p.by_blocks), block = index - row * p.blocks;
    const int image = divided(row, p.by_bands), first = (row - image * p.bands) * kPixels;
#pragma unroll 1
    for (int i = 0; i < kPixels; i += 32)
#pragma unroll 1
      for (int c = 0; c < kChannels; c += kLane * kEach)
        if (first + i < p.pixels) transpose<kEach>(image, first + i, block * kChannels + c);
  }

  // `count` channels of a filter from `from` on, (channels, taps), become (taps, channels) at `to`, where there is room
  // for a multiple of 8: zeros behind the last. By way of shared memory if they fit, and begin at a multiple of 16
  // bytes.
  UNISONO_DEVICE void convert_channels(const u16* from, u16* to, int count, u8* scratch, int room) const {
    const int bytes = 2 * count * p.taps;
    if (p.channels % 8 == 0 && bytes <= room) {
      constexpr int kAtOnce = 5;  // pieces of 16 bytes a lane: all of 128 channels and nine taps
#pragma unroll 1
      for (int i = 16 * lane; i < bytes; i += kAtOnce * 512) {
        uint4 piece[kAtOnce];
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j)
          if (i + 512 * j < bytes)
            piece[j] = *reinterpret_cast<const uint4*>(reinterpret_cast<const u8*>(from) + i + 512 * j);
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j)
          if (i + 512 * j < bytes) *reinterpret_cast<uint4*>(scratch + i + 512 * j) = piece[j];
      }
      __syncwarp();
      from = reinterpret_cast<const u16*>(scratch);
    }
    const int padded = (count + 7) / 8 * 8;
    for (int channel = 2 * lane; channel < padded; channel += 64)
      for (int tap = 0; tap < p.taps; ++tap) {
        const u32 low = channel < count ? from[channel * p.taps + tap] : 0,
                  high = channel + 1 < count ? from[(channel + 1) * p.taps + tap] : 0;
        *reinterpret_cast<u32*>(to + tap * p.padded + channel) = low | high << 16;
      }
    __syncwarp();
  }

  // As many channels at a time as there is room for.
  UNISONO_DEVICE void convert_filter(int unit, u8* scratch, int room) const {
    const int filter = divided(unit, p.by_filter_pieces), piece = unit - filter * p.filter_pieces;
    const int first = piece * kConvertedFilterChannels, end = smaller(first + kConvertedFilterChannels, p.channels);
    const u16* const from = static_cast<const u16*>(p.filter) + u64(filter) * u32(p.channels * p.taps);
    u16* const to = static_cast<u16*>(p.filter_to) + u64(filter) * u32(p.taps * p.padded);
    const int step = larger(64, room / (128 * p.taps) * 64);
    for (int c = first; c < end; c += step)
      convert_channels(from + c * p.taps, to + c, smaller(step, end - c), scratch, room);
  }

  // By all warps of the launch, `warp` of `warps`, with so many bytes of scratch: the units ahead of everything else.
  UNISONO_DEVICE void convert_ahead(int warp, int warps, u8* scratch, int room) const {
    for (int unit = warp; unit < p.ahead; unit += warps)
      if (unit < p.filter_units)
        convert_filter(unit, scratch, room);
      else
        convert_image<8>(unit);
  }
};

// A spare warp's share of the units that were not converted ahead.
struct ConversionBeside {
  static constexpr int kEach = 4;  // channels a lane: of few registers
  const PlaneConversion conversion;
  const u32 tag;
  int next, step;

  UNISONO_DEVICE ConversionBeside(const PlanesToConvert& p, u32 tag, int warp, int warps)
      : conversion{p, int(threadIdx.x) & 31}, tag(tag), next(p.ahead + warp), step(warps) {}

  UNISONO_DEVICE void until(int end) {
    const PlanesToConvert& p = conversion.p;
    for (; next < end; next += step) {
      conversion.convert_image<kEach>(next);
      fence_async_global();  // what this lane has written is read by TMA
      __syncwarp();
      if (conversion.lane != 0) continue;
      delay_point();
      store_release(p.flags + gridDim.x + (next - p.ahead), tag);
    }
  }
  // Ahead of waiting for what needs image `image`: its own share of it, and of what tiles under way read meanwhile.
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
    __threadfence();  // what was written ahead of the flags
  }
  // What all CTAs have converted ahead.
  UNISONO_DEVICE void await_ahead() const { wait(0, gridDim.x); }
  // Image rows [top, bottom] of an image, as far as they exist.
  UNISONO_DEVICE void await_rows(int image, int top, int bottom) {
    top = larger(top, 0), bottom = smaller(bottom, p.height - 1);
    const int first = p.filter_units + image * p.bands * p.blocks;
    const int from = larger(p.ahead, first + top * p.width / PlaneConversion::kPixels * p.blocks),
              to = first + divide_up((bottom + 1) * p.width, PlaneConversion::kPixels) * p.blocks;
    if (top > bottom || from >= to) return;
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

// Ahead of a tile's loads.
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
  static UNISONO_DEVICE NothingBeside beside(const typename Kernel::Params&, int, u32) { return {}; }
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
  static UNISONO_DEVICE ConversionBeside beside(const typename Kernel::Params& params, int warp, u32 epoch) {
    return {planes_of<Kernel>(params), epoch + 1, int(blockIdx.x * 3) + warp, int(gridDim.x * 3)};
  }
  // By all threads, in memory that is not yet any stage's; nothing there is initialised.
  static UNISONO_DEVICE void ahead(const typename Kernel::Params& params, u8* memory) {
    constexpr int kWarps = Kernel::kThreads / 32, kRoom = Kernel::kOffsetSecond / kWarps / 16 * 16;
    const int warp = threadIdx.x / 32;
    const PlanesToConvert& planes = planes_of<Kernel>(params);
    PlaneConversion{planes, int(threadIdx.x) & 31}.convert_ahead(warp * gridDim.x + blockIdx.x, kWarps * gridDim.x,
                                                                 memory + warp * kRoom, kRoom);
    fence_async_global();  // what this thread has written is read by TMA, and its scratch written
    fence_async_shared();
    __syncthreads();
    if (threadIdx.x != 0) return;
    delay_point();
    store_release(planes.flags + blockIdx.x, Kernel::epoch_of(params.fixed) + 1);
  }
};

}  // namespace unisono
