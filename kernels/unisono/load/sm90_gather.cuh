// Operands by ordinary loads, for what TMA cannot address or align: any number of channels and of columns, any
// stride between elements (products in every layout, channels-first images), any stride, padding and dilation of the
// filter, groups of channels, transposed convolutions. The producer's warps write a stage as TMA would have: rows of k,
// swizzled.
//
// k counts taps, then channels: k = (r * S + s) * channels + c, and is cut into stages without regard to either, so
// that few channels waste nothing. What is outside (k past the end, rows past the image, taps in the padding) is zero.
#pragma once
#include "unisono/epilogue/sm90_epilogue.cuh"
#include "unisono/params/sm90_shared_layout.cuh"
#include "unisono/tile/layout.cuh"

namespace unisono {

// A row of the tile: where its image begins, and the input pixel under its first tap (of transposed convolutions: the
// output pixel).
struct alignas(16) GatheredRow {
  u64 base;
  int h, w;
};

// A position in k: the tap and the channel.
struct Tap {
  int h, w, c;  // in input pixels; channel of the group
};

template <class Config>
struct Gather {
  using Operands = typename Config::Operands;
  using Rows = RowsIn<Config>;
  static constexpr int kM = Config::kTileM, kN = Config::kTileN, kK = Config::kTileK;
  using Word = typename Config::Element::Word;
  static constexpr int kEach = 16 / int(sizeof(Word)), kRowBytes = kK * int(sizeof(Word)),
                       kChunks = kK / kEach;  // elements of a chunk
  static constexpr bool kExchange = Config::kNorm != Norm::kNone && Config::kNorm != Norm::kRows;
  // Statistics take the other warps: one merges them, or streamed all three have something to do.
  static constexpr int kThreads = !kExchange ? 128 : Config::kNorm == Norm::kStreamed ? 32 : 96;
  static_assert(sizeof(GatheredRow) == shared_layout::kGatheredRow, "the host reckons with its size");
  static constexpr int kTableBytes = kM * shared_layout::kGatheredRow;
  static constexpr int kNowhere = -(1 << 29);  // no tap of such a row is in the image

  const GatheredImage& image;
  const GatheredFilter& filter;
  const ConvGeometry& geometry;
  GatheredRow* const table;  // of the tile's rows
  const int thread;

  UNISONO_DEVICE void sync() const { named_barrier(8, kThreads); }

  static UNISONO_DEVICE Gather of(const ConvParams& p, GatheredRow* table) {
    static_assert(sizeof(GatheredImage) <= sizeof(TensorMap) && sizeof(GatheredFilter) <= sizeof(TensorMap),
                  "they stand in the maps' places");
    return {reinterpret_cast<const GatheredImage&>(p.activation), reinterpret_cast<const GatheredFilter&>(p.filter),
            p.geometry, table, int(threadIdx.x)};
  }

  // Row m of a tile, or of a warpgroup's share; from the first group's channels on.
  UNISONO_DEVICE GatheredRow row_at(const Rows& rows, int m, int first_image) const {
    const ConvGeometry& g = geometry;
    const int pixels = g.height * g.width, pixel = rows.pixel(m), n = first_image + pixel / pixels,
              p = pixel % pixels / g.width, q = pixel % g.width;
    GatheredRow row{u64(n) * image.step_image, kNowhere, kNowhere};
    if (rows.valid(m)) {
      if constexpr (Operands::kTransposed)
        row.h = p + g.pad_h, row.w = q + g.pad_w;
      else
        row.h = p * g.stride_h - g.pad_h, row.w = q * g.stride_w - g.pad_w;
    }
    return row;
  }

  // All threads, before a tile's loads.
  UNISONO_DEVICE void find_rows(const Tile& tile) const {
    const ConvGeometry& g = geometry;
    const Rows rows = Rows::of(g, tile, kM, 0);
    const int group = tile.tile_n * kN / image.group_filters;
    sync();  // the last tile's are read
    for (int m = thread; m < kM; m += kThreads) {
      GatheredRow row = row_at(rows, m, tile.image);
      row.base += u64(group) * image.channels * image.step_c;
      table[m] = row;
    }
    sync();
  }

  UNISONO_DEVICE Tap tap_of(int k) const {
    const int tap = k / image.channels;
    return {tap / image.taps_w * geometry.dilation_h, tap % image.taps_w * geometry.dilation_w,
            k - tap * image.channels};
  }
  UNISONO_DEVICE void advance(Tap& tap) const {
    if (++tap.c < image.channels) return;
    tap.c = 0, tap.w += geometry.dilation_w;
    if (tap.w == image.taps_w * geometry.dilation_w) tap.w = 0, tap.h += geometry.dilation_h;
  }

  // Where in the image a tap of a row is, in elements from the row's base (below 2^31, the planner's care); negative
  // outside.
  UNISONO_DEVICE int element_of(const GatheredRow& row, const Tap& tap) const {
    int h, w;
    bool inside = true;
    if constexpr (Operands::kTransposed) {
      h = row.h - tap.h, w = row.w - tap.w;
      inside = h >= 0 && w >= 0 && h % geometry.stride_h == 0 && w % geometry.stride_w == 0;
      h /= geometry.stride_h, w /= geometry.stride_w;
    } else {
      h = row.h + tap.h, w = row.w + tap.w;
    }
    if (!inside || unsigned(h) >= unsigned(image.height) || unsigned(w) >= unsigned(image.width)) return -1;
    return h * image.step_h + w * image.step_w + tap.c * image.step_c;
  }

  static UNISONO_DEVICE uint4 join(const u16 (&x)[8]) {
    return {x[0] | u32(x[1]) << 16, x[2] | u32(x[3]) << 16, x[4] | u32(x[5]) << 16, x[6] | u32(x[7]) << 16};
  }
  static UNISONO_DEVICE uint4 join(const u32 (&x)[4]) { return {x[0], x[1], x[2], x[3]}; }

  // A chunk of a row, from k on.
  UNISONO_DEVICE uint4 pixels_of(const GatheredRow& row, Tap tap, int k) const {
    const Word* base = static_cast<const Word*>(image.memory) + row.base;
    if constexpr (Operands::kVectors) {
      const int at = k < image.depth ? element_of(row, tap) : -1;
      return at < 0 ? uint4{0, 0, 0, 0} : __ldg(reinterpret_cast<const uint4*>(base + at));
    } else {
      Word x[kEach];
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        const int at = k + i < image.depth ? element_of(row, tap) : -1;
        x[i] = at < 0 ? Word(0) : __ldg(base + at);
        advance(tap);
      }
      return join(x);
    }
  }

  UNISONO_DEVICE uint4 filters_of(const Word* base, int n, int k) const {
    Word x[kEach];
    int tap = k / filter.channels, c = k - tap * filter.channels;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      x[i] = n < geometry.channels && k + i < image.depth
                 ? __ldg(base + n * filter.step_filter + tap * filter.step_tap + c * filter.step_c)
                 : Word(0);
      if (++c == filter.channels) c = 0, ++tap;
    }
    return join(x);
  }

  // Chunk c of a row of a stage, as TMA swizzles it.
  static UNISONO_DEVICE uint4& place(u8* stage, int row, int chunk) {
    constexpr int kShift = kRowBytes == 128 ? 0 : 1;
    return *reinterpret_cast<uint4*>(stage + row * kRowBytes + ((chunk ^ (row >> kShift & (kChunks - 1))) << 4));
  }

  // Calls f(row, chunk) for this thread's share of a stage: neighbours in a warp read neighbours in memory.
  template <int kRows, bool kRowsFirst, class F>
  UNISONO_DEVICE void share(F&& f) const {
    if constexpr (kRowsFirst) {
#pragma unroll 1
      for (int i = thread; i < kRows * kChunks; i += kThreads) f(i % kRows, i / kRows);
    } else {
#pragma unroll 1
      for (int row = thread / kChunks; row < kRows; row += kThreads / kChunks) f(row, thread % kChunks);
    }
  }

  UNISONO_DEVICE void fill_pixels(u8* stage, int k) const {
    share<kM, Operands::kRowsFirstA>([&](int row, int chunk) {
      place(stage, row, chunk) = pixels_of(table[row], tap_of(k + kEach * chunk), k + kEach * chunk);
    });
  }
  UNISONO_DEVICE void fill_filters(u8* stage, const Tile& tile, int k) const {
    const Word* base = static_cast<const Word*>(filter.memory) + u64(tile.image) * filter.step_image +
                       tile.tile_n * kN / image.group_filters * filter.step_group;
    share<kN, Operands::kRowsFirstB>([&](int row, int chunk) {
      place(stage, row, chunk) = filters_of(base, tile.tile_n * kN + row, k + kEach * chunk);
    });
  }
};

}  // namespace unisono
