// Channels first in memory: a launch converts its image NCHW and its filters KCRS into its workspace, NHWC and KRSC of a
// multiple of 8 channels, zeros behind the last, where TMA loads them as any others. A shift of one pixel is 2 bytes of
// a plane, and neither TMA nor a matrix descriptor begins at other than multiples of 16: filters wider than one tap
// cannot be multiplied as planes.
//
// The work is cut into units, each of one warp: 64 channels of a filter; then, image by image, 64 pixels by 64 channels.
// The first of them, all of the filters among those, are converted by all warps of the launch before anything else; the
// others by the spare warps of the producers' warpgroups, while the tiles of earlier images are multiplied. A unit that
// is done is flagged by the launch's epoch plus one. The producer waits for the units that a tile's loads read.
//
// Nobody deadlocks: a warp that converts waits for no other warp's units, and a spare warp waits for the statistics of an
// image only once it has converted its own units of that image and of all before it; they need no more.
#pragma once
#include "unisono/ptx/global.cuh"
#include "unisono/ptx/sm90_barrier.cuh"
#include "unisono/tile/tile_scheduler.cuh"

namespace unisono {

struct PlaneConversion {
  static constexpr int kPixels = kConvertedPixels, kChannels = kConvertedChannels;  // of a unit
  static constexpr int kScratch = 2304;  // bytes a warp: 64 channels of 18 taps

  const PlanesToConvert& p;
  const u32 tag;
  const int lane;

  // Units [begin, end) of images up to `image`.
  UNISONO_DEVICE int end_of(int image) const {
    return image + 1 >= p.images ? p.units : p.filter_units + (image + 1) * p.bands * p.blocks;
  }

  UNISONO_DEVICE void publish(int unit) const {
    fence_async_global();  // what this lane has written is read by TMA
    __syncwarp();
    if (lane == 0) {
      delay_point();
      store_release(p.flags + unit, tag);
    }
  }

  // 2 kWords pixels from `pixel` on of the channel at `plane`, in pairs; zeros behind the last.
  template <int kWords>
  UNISONO_DEVICE void load_row(u32 (&row)[kWords], const u16* plane, int pixel, bool exists) const {
    if (p.pixels % (2 * kWords) == 0) {
      if constexpr (kWords == 4) {
        const uint4 all = exists ? *reinterpret_cast<const uint4*>(plane + pixel) : uint4{};
        row[0] = all.x, row[1] = all.y, row[2] = all.z, row[3] = all.w;
      } else {
        const uint2 all = exists ? *reinterpret_cast<const uint2*>(plane + pixel) : uint2{};
        row[0] = all.x, row[1] = all.y;
      }
      return;
    }
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      const u32 low = exists && pixel + 2 * i < p.pixels ? plane[pixel + 2 * i] : 0,
                high = exists && pixel + 2 * i + 1 < p.pixels ? plane[pixel + 2 * i + 1] : 0;
      row[i] = low | high << 16;
    }
  }

  // 8 kWords pixels from `first` on by 64 channels: a lane has eight channels of 2 kWords pixels, loads these of a
  // channel at once, and stores eight channels of a pixel.
  template <int kWords>
  UNISONO_DEVICE void transpose(int image, int first, int block) const {
    const int pixel = first + lane / 8 * (2 * kWords), channel = block * kChannels + lane % 8 * 8;
    const u16* from = static_cast<const u16*>(p.image) + (u64(image) * p.channels + channel) * u32(p.pixels);
    u32 rows[8][kWords];
#pragma unroll
    for (int c = 0; c < 8; ++c, from += p.pixels)
      load_row(rows[c], from, pixel, pixel < p.pixels && channel + c < p.channels);
    if (channel >= p.padded) return;
    u16* to = static_cast<u16*>(p.image_to) + (u64(image) * p.pixels + pixel) * u32(p.padded) + channel;
#pragma unroll
    for (int i = 0; i < 2 * kWords; ++i, to += p.padded) {
      const auto pair = [&](int c) {
        return __byte_perm(rows[c][i / 2], rows[c + 1][i / 2], i % 2 == 0 ? 0x5410 : 0x7632);
      };
      if (pixel + i < p.pixels) *reinterpret_cast<uint4*>(to) = {pair(0), pair(2), pair(4), pair(6)};
    }
  }

  template <int kWords>
  UNISONO_DEVICE void convert_image(int unit) const {
    const int index = unit - p.filter_units, row = divided(index, p.by_blocks), block = index - row * p.blocks;
    const int image = divided(row, p.by_bands), first = (row - image * p.bands) * kPixels;
#pragma unroll 1
    for (int i = 0; i < kPixels; i += 8 * kWords)
      if (first + i < p.pixels) transpose<kWords>(image, first + i, block);
  }

  // (channels, taps) of one filter become (taps, channels), by way of shared memory where they fit and begin at a
  // multiple of 16 bytes: of a row of taps, neighbouring lanes then read neighbouring banks.
  UNISONO_DEVICE void convert_filter(int unit, u8* scratch) const {
    const int filter = divided(unit, p.by_blocks), first = (unit - filter * p.blocks) * kChannels;
    const u16* from = static_cast<const u16*>(p.filter) + (u64(filter) * p.channels + first) * u32(p.taps);
    u16* const to = static_cast<u16*>(p.filter_to) + u64(filter) * u32(p.taps * p.padded) + first;
    const int count = smaller(kChannels, p.channels - first), bytes = 2 * count * p.taps;
    if (p.channels % 8 == 0 && bytes <= kScratch) {
#pragma unroll 1
      for (int i = 16 * lane; i < bytes; i += 4 * 512) {
        uint4 piece[4];
#pragma unroll
        for (int j = 0; j < 4; ++j)
          if (i + 512 * j < bytes) piece[j] = *reinterpret_cast<const uint4*>(reinterpret_cast<const u8*>(from) + i + 512 * j);
#pragma unroll
        for (int j = 0; j < 4; ++j)
          if (i + 512 * j < bytes) *reinterpret_cast<uint4*>(scratch + i + 512 * j) = piece[j];
      }
      __syncwarp();
      from = reinterpret_cast<const u16*>(scratch);
    }
    const int channel = 2 * lane;
    if (first + channel < p.padded)
      for (int tap = 0; tap < p.taps; ++tap) {
        const u32 low = channel < count ? from[channel * p.taps + tap] : 0,
                  high = channel + 1 < count ? from[(channel + 1) * p.taps + tap] : 0;
        *reinterpret_cast<u32*>(to + tap * p.padded + channel) = low | high << 16;
      }
    __syncwarp();
  }

  // By all warps of the launch, `warp` of `warps`, whose scratch nobody else uses: the units ahead of everything else.
  UNISONO_DEVICE void convert_ahead(int warp, int warps, u8* scratch) const {
    for (int unit = warp; unit < p.ahead; unit += warps) {
      if (unit < p.filter_units)
        convert_filter(unit, scratch);
      else
        convert_image<4>(unit);
      publish(unit);
    }
  }
};

// A spare warp's share of the units that were not converted ahead.
struct ConversionBeside {
  static constexpr int kWords = 2;  // of few registers
  const PlaneConversion conversion;
  int next, step;

  UNISONO_DEVICE ConversionBeside(const PlanesToConvert& p, u32 tag, int warp, int warps)
      : conversion{p, tag, int(threadIdx.x) & 31}, next(p.ahead + warp), step(warps) {}

  UNISONO_DEVICE void until(int end) {
    for (; next < end; next += step) conversion.convert_image<kWords>(next), conversion.publish(next);
  }
  // Ahead of waiting for what needs image `image`: its own share of it, and as far ahead as tiles are under way.
  UNISONO_DEVICE void through(int image) { until(conversion.end_of(image + conversion.p.images_ahead)); }
  UNISONO_DEVICE void finish() { until(conversion.p.units); }
};

// What the producer's warp knows to be converted. Lane 0 issues the loads, and the others wait for it: what they have
// found by then costs it no trip to memory.
struct ConvertedUnits {
  const PlanesToConvert& p;
  const u32 tag;
  int begin = 0, end = 0;  // of images: these units are

  UNISONO_DEVICE void wait(int from, int to) const {
    constexpr int kAtOnce = 4;
    const int lane = int(threadIdx.x) & 31;
    if (lane == 0) return;
    Watchdog watchdog;
    delay_point();
#pragma unroll 1
    for (int unit = from + lane - 1; unit < to;) {
      bool done = true;
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i)
        if (unit + 31 * i < to) done = done & (load_relaxed(p.flags + unit + 31 * i) == tag);
      if (done) {
        unit += 31 * kAtOnce;
      } else {
        __nanosleep(100);
        watchdog.tick();
      }
    }
    __threadfence();  // what was written ahead of the flags
  }
  UNISONO_DEVICE void await_filters() const { wait(0, p.filter_units); }
  // Image rows [top, bottom] of an image, as far as they exist.
  UNISONO_DEVICE void await_rows(int image, int top, int bottom) {
    top = larger(top, 0), bottom = smaller(bottom, p.height - 1);
    if (top > bottom) return;
    const int first = p.filter_units + image * p.bands * p.blocks;
    const int from = first + top * p.width / PlaneConversion::kPixels * p.blocks,
              to = first + divide_up((bottom + 1) * p.width, PlaneConversion::kPixels) * p.blocks;
    const bool beyond = from < begin || from > end;
    if (beyond) begin = from;
    if (beyond || to > end) wait(beyond ? from : end, to), end = to;
  }
  // By the whole warp, ahead of its first lane's loads.
  static UNISONO_DEVICE void admit_loads() {
    __syncwarp();
    fence_async_global();
  }
};

}  // namespace unisono
