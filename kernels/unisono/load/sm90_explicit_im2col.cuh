// Images of few channels: a tile is two-dimensional, the window of the image that its pixels see comes by TMA, once,
// and the producer's warps do im2col of it in shared memory: rows of k, swizzled, as a stage of the ring holds them.
// Filters stay in shared memory for the whole launch.
//
// k counts rows of the filter; the taps of a filter row and their channels lie side by side, in the window as in the
// filter (K, R, S, C), and are padded to chunks of eight elements: 7 filter rows of 3 chunks for 7x7 taps of 3
// channels. So a chunk of a row of the tile is 16 bytes of the window, from pixel x's first tap on: the element kShift
// + x * kPixel + 8 * chunk of an image row: TMA begins at multiples of 16 bytes (elsewhere it stops with an illegal
// instruction, which its documentation does not say), kShift elements before the first tap. Where an element is an
// odd one, words are put together of halves of two. The window's image rows and pixels outside the image are zero, and
// so are the elements that pad a filter row, whatever lies there: a product with a zero of the filter would not be zero
// for an infinity.
#pragma once
#include "unisono/epilogue/sm90_epilogue.cuh"
#include "unisono/params/sm90_shared_layout.cuh"
#include "unisono/ptx/sm90_barrier.cuh"
#include "unisono/ptx/sm90_tma.cuh"
#include "unisono/tile/layout.cuh"
#include "unisono/tile/tile_scheduler.cuh"

namespace unisono {

template <class Config>
struct ExplicitIm2col {
  using Operands = typename Config::Operands;
  static constexpr int kM = Config::kTileM, kN = Config::kTileN, kK = Config::kTileK, kRowBytes = 2 * kK,
                       kChunks = kK / 8, kBytesB = kN * kRowBytes;
  static constexpr int kPitch = Operands::kPitch,
                       kPixel =
                           Operands::kStrideW * Operands::kChannels;  // bytes of an image row; elements of a step in it
  static constexpr int kLine = Operands::kTaps * Operands::kChannels, kLineChunks = divide_up(kLine, 8),
                       kDepth = Operands::kLines * kLineChunks;
  static constexpr int kSteps = divide_up(kDepth, kChunks);
  static constexpr bool kExchange = Config::kNorm != Norm::kNone && Config::kNorm != Norm::kRows;
  // Statistics take the other warps, as in load/sm90_gather.cuh.
  static constexpr int kThreads = !kExchange ? 128 : Config::kNorm == Norm::kStreamed ? 32 : 96;

  static constexpr int kShift = Operands::kShift;
  static constexpr int kGrain = (kPixel | kShift) % 8 == 0   ? 16
                                : (kPixel | kShift) % 4 == 0 ? 8
                                                             : 4;  // bytes of a load
  static constexpr bool kOdd = (kPixel | kShift) % 2 != 0;         // of some pixel's elements
  static constexpr int kWindowLines =
      shared_layout::window_lines(kM, Operands::kStrideH, Operands::kLines, Operands::kDilationH);
  static constexpr int kBoxBytes = kWindowLines * kPitch,
                       kWindowBytes = int(shared_layout::window_bytes(kWindowLines, kPitch));

  // Eight pixels that are a multiple of 32 bytes apart would read the same banks: that many neighbouring chunks change
  // places from pixel to pixel.
  static constexpr int swizzled(int granules) { return granules % 2 != 0 ? 1 : granules % 4 != 0 ? 2 : 4; }
  static constexpr int kMostSwizzled = kGrain == 16 && kLine % 8 == 0 ? swizzled(kPixel / 8) : 1;
  static constexpr int kSwizzled = kLineChunks % kMostSwizzled == 0             ? kMostSwizzled
                                   : kMostSwizzled == 4 && kLineChunks % 2 == 0 ? 2
                                                                                : 1;

  static_assert(Config::kTwoDimensional && Config::kClusterM * Config::kClusterN == 1 && !Config::kSplit,
                "two-dimensional tiles, in CTAs by themselves");
  static_assert(kPitch % 16 == 0 && kWindowLines <= 256, "a TMA box");

  const int thread;

  static UNISONO_DEVICE const Im2colFilter& filter_of(const ConvParams& p) {
    static_assert(sizeof(Im2colFilter) <= sizeof(TensorMap), "it stands in the map's place");
    return reinterpret_cast<const Im2colFilter&>(p.filter);
  }

  // By one thread. A box of image rows is faster than one of pixels, where TMA takes each pixel as a row.
  static UNISONO_DEVICE void load_window(const ConvParams& p, const Tile& tile, u32 to, u32 full) {
    const Rows2d rows = Rows2d::of(p.geometry, tile, kM, 0);
    const int h = rows.top * Operands::kStrideH - p.geometry.pad_h,
              w = rows.left * Operands::kStrideW - p.geometry.pad_w;
    mbarrier_arrive_expect(full, kBoxBytes);
    if (Operands::kChannels % 8 == 0 && !filter_of(p).whole_lines)
      return tma_load_4d(to, p.activation, full, 0, w, h, tile.image);
    tma_load_3d(to, p.activation, full, w * Operands::kChannels - kShift, h, tile.image);
  }

  // Chunk c of a row of a stage, as TMA swizzles it.
  static UNISONO_DEVICE uint4& place(u8* stage, int row, int chunk) {
    constexpr int kShift = kRowBytes == 128 ? 0 : 1;
    return *reinterpret_cast<uint4*>(stage + row * kRowBytes + ((chunk ^ (row >> kShift & (kChunks - 1))) << 4));
  }

  // The filters of all k-steps, one after another.
  UNISONO_DEVICE void fill_filters(const ConvParams& p, u8* to) const {
    const u16* memory = static_cast<const u16*>(filter_of(p).memory);
#pragma unroll 4
    for (int i = thread; i < kN * kSteps * kChunks; i += kThreads) {
      const int n = i / (kSteps * kChunks), at = i % (kSteps * kChunks), first = at % kLineChunks * 8;
      const bool inside = n < p.geometry.channels && at < kDepth;
      const u16* from = memory + (n * Operands::kLines + at / kLineChunks) * kLine + first;
      uint4 chunk{0, 0, 0, 0};
      if constexpr (kLine % 8 == 0) {
        if (inside) chunk = __ldg(reinterpret_cast<const uint4*>(from));
      } else {
        u16 x[8];
#pragma unroll
        for (int e = 0; e < 8; ++e) x[e] = inside && first + e < kLine ? __ldg(from + e) : u16(0);
        chunk = {x[0] | u32(x[1]) << 16, x[2] | u32(x[3]) << 16, x[4] | u32(x[5]) << 16, x[6] | u32(x[7]) << 16};
      }
      place(to + at / kChunks * kBytesB, n, at % kChunks) = chunk;
    }
  }

  // Chunk `at` of a row, whose image rows begin `odd` (0 or 1) elements after `from`.
  static UNISONO_DEVICE uint4 chunk_at(const u8* from, int at, int odd) {
    const int valid = kLine - at % kLineChunks * 8;  // elements, of eight
    u32 x[5] = {0, 0, 0, 0, 0};
    if (at >= kDepth) return {0, 0, 0, 0};
    from += at / kLineChunks * Operands::kDilationH * kPitch + at % kLineChunks / kSwizzled * kSwizzled * 16;
#pragma unroll
    for (int word = 0; word < 4; word += kGrain / 4) {
      if (2 * word >= valid) continue;
      if constexpr (kGrain == 16) {
        const uint4 all = *reinterpret_cast<const uint4*>(from);
        x[0] = all.x, x[1] = all.y, x[2] = all.z, x[3] = all.w;
      } else if constexpr (kGrain == 8) {
        const uint2 pair = *reinterpret_cast<const uint2*>(from + 4 * word);
        x[word] = pair.x, x[word + 1] = pair.y;
      } else {
        x[word] = *reinterpret_cast<const u32*>(from + 4 * word);
      }
    }
    if constexpr (kOdd) {
      const int last = valid < 8 ? valid / 2 : 4;  // the word of an odd image row's last element
      if (valid >= 8 || valid % 2 == 0) x[last] = *reinterpret_cast<const u32*>(from + 4 * last);
#pragma unroll
      for (int word = 0; word < 4; ++word) x[word] = u32((u64(x[word + 1]) << 32 | x[word]) >> (16 * odd));
    }
#pragma unroll
    for (int word = 0; word < 4; ++word)
      if (2 * word + 1 == valid)
        x[word] &= 0xffff;
      else if (2 * word >= valid)
        x[word] = 0;
    return {x[0], x[1], x[2], x[3]};
  }

  // One k-step of all rows of the tile, a row a lane; free() waits until the stage may be written.
  template <class F>
  UNISONO_DEVICE void fill(u8* stage, const u8* window, int step, F&& free) const {
    constexpr int kAtOnce = kExchange ? 1 : 2;  // addresses of more rows exceed 64 registers
#pragma unroll kAtOnce
    for (int first = 0; first < kM; first += kThreads) {
      const int row = first + thread;
      if (kM % kThreads != 0 && row >= kM) {  // a whole warp, which arrives like the others
        if (first == 0) free();
        break;
      }
      const int x = row % 8, swizzle = kSwizzled == 1 ? 0 : x * kSwizzled / 8;
      const int element = kShift + x * kPixel, odd = kOdd ? element & 1 : 0;
      const u8* from = window + row / 8 * Operands::kStrideH * kPitch + 2 * (element - odd);
      uint4 chunks[kChunks];
#pragma unroll
      for (int i = 0; i < kChunks; ++i)
        chunks[i] = chunk_at(from + ((i % kSwizzled ^ swizzle) << 4), step * kChunks + i, odd);
      if (first == 0) free();
#pragma unroll
      for (int i = 0; i < kChunks; ++i) place(stage, row, i ^ swizzle) = chunks[i];
    }
  }
};

// What a CTA holds of filters, in k-steps, and a window's bytes; without windows as many as there are stages, and
// none.
template <class Config>
constexpr int filter_stages(int stages) {
  if constexpr (Config::Operands::kIm2colSmem)
    return ExplicitIm2col<Config>::kSteps;
  else
    return stages;
}
template <class Config>
constexpr int window_bytes() {
  if constexpr (Config::Operands::kIm2colSmem)
    return ExplicitIm2col<Config>::kWindowBytes;
  else
    return 0;
}

}  // namespace unisono
