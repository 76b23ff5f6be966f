// Gradients of a convolution's filter: the products of every pixel's gradient with what the taps of the filter read for
// it, summed over all pixels. Both operands lie with pixels, over which the sums run, as lines, so that ldmatrix
// transposes their fragments. A CTA has a tile of filters by columns (params/filter_gradient_params.cuh), and a part of
// the pixels; filter_gradient_of_parts() adds the parts in their order.
#pragma once
#include "unisono/mma/fragments.cuh"
#include "unisono/params/filter_gradient_params.cuh"
#include "unisono/ptx/sm90_barrier.cuh"
#include "unisono/sm80/loads.cuh"

namespace unisono::product {

// kRows x kColumns: of a CTA's tile. kCopyG, kCopyX: bytes that copies take of each operand.
template <class ElementOf, int kRowsOf, int kColumnsOf, int kCopyGOf, int kCopyXOf>
struct FilterGradientTile {
  using Element = ElementOf;
  static constexpr int kRows = kRowsOf, kColumns = kColumnsOf, kCopyG = kCopyGOf, kCopyX = kCopyXOf;
  static constexpr int kThreads = 128, kDepth = 32, kStages = 3;            // kDepth: pixels of a step
  static constexpr int kWarpRows = kRows / 2, kWarpColumns = kColumns / 2;  // two by two warps
  using G = OperandTile<kRows, 2 * kDepth, 2, true>;
  using X = OperandTile<kColumns, 2 * kDepth, 2, true>;
  static constexpr int kStage = G::Tile::kSize + X::Tile::kSize;
};

// Copies what one tap reads for every kAtOnce-th pixel of a part: a thread's tap and channels are the same for all of
// them. It goes from pixel to pixel by additions.
template <class Tile>
struct TapLoader {
  using Mine = Copies<typename Tile::X, Tile::kCopyX, Tile::kThreads>;
  const u8* from;                          // what the tap reads of the pixel; it may lie outside of the image
  i64 step, next_row, next_image;          // bytes: of kAtOnce pixels; more where a row of pixels, an image ends
  int h, w, h_end, w_end, step_h, step_w;  // of the image, as the tap sees it
  int pixels;                              // that the part still has from this one on

  UNISONO_DEVICE void open(const FilterGradientParams& p, int first_pixel, int part_end, int group, int first_column) {
    const int column = first_column + Mine::byte() / 2, tap = column / p.tap_columns,
              channel = group * p.channels + column % p.tap_columns;
    const int below = tap / p.taps_w * p.dilation_h - p.pad_h, right = tap % p.taps_w * p.dilation_w - p.pad_w;
    const int pixel = first_pixel + Mine::line(), image = pixel / (p.out_height * p.out_width),
              row = pixel / p.out_width % p.out_height;
    h = row * p.stride_h + below, w = pixel % p.out_width * p.stride_w + right;
    h_end = p.out_height * p.stride_h + below, w_end = p.out_width * p.stride_w + right;
    const i64 pitch = 2 * p.x_pixel, line = p.width * pitch;
    from = static_cast<const u8*>(p.x) + (i64(image) * p.height + h) * line + w * pitch + 2 * channel;
    const int images = Mine::kAtOnce / (p.out_height * p.out_width), rows = Mine::kAtOnce / p.out_width % p.out_height;
    step_h = rows * p.stride_h, step_w = Mine::kAtOnce % p.out_width * p.stride_w;
    step = (i64(images) * p.height + step_h) * line + step_w * pitch;
    next_row = p.stride_h * line - p.out_width * p.stride_w * pitch;
    next_image = (i64(p.height) - i64(p.out_height) * p.stride_h) * line;
    pixels = column < p.columns ? part_end - pixel : 0;
  }
  template <int kPart, int kParts>
  UNISONO_DEVICE void load(u8* stage, const FilterGradientParams& p) {
#pragma unroll
    for (int i = Mine::begin(kPart, kParts); i < Mine::begin(kPart + 1, kParts); ++i) {
      static_assert(Tile::kDepth % Mine::kAtOnce == 0, "all rounds are whole");
      const bool exists = pixels > 0 && u32(h) < u32(p.height) && u32(w) < u32(p.width);
      copy_to_shared<Tile::kCopyX>(stage, Mine::Tile::at(Mine::line() + i * Mine::kAtOnce, Mine::byte()),
                                   exists ? from : static_cast<const u8*>(p.x), exists);
      pixels -= Mine::kAtOnce, from += step, h += step_h, w += step_w;
      if (w >= w_end) w -= p.out_width * p.stride_w, h += p.stride_h, from += next_row;
      if (h >= h_end) h -= p.out_height * p.stride_h, from += next_image;
    }
  }
};

// The sums of a warp: those of 16 filters by 8 columns to a quadruple.
template <class Tile>
struct FilterGradientSums {
  static constexpr int kDown = Tile::kWarpRows / 16, kAcross = Tile::kWarpColumns / 16;
  float sums[kDown][2 * kAcross][4];

  static UNISONO_DEVICE int first_row() { return int(threadIdx.x) / 64 * Tile::kWarpRows; }
  static UNISONO_DEVICE int first_column() { return int(threadIdx.x) / 32 % 2 * Tile::kWarpColumns; }
  UNISONO_DEVICE void clear() {
#pragma unroll
    for (int i = 0; i < kDown; ++i)
#pragma unroll
      for (int j = 0; j < 2 * kAcross; ++j) sums[i][j][0] = sums[i][j][1] = sums[i][j][2] = sums[i][j][3] = 0.f;
  }
  // Adds a step's products. `others`: work between those of 16 pixels and the next.
  template <class F>
  UNISONO_DEVICE void add(u32 stage, const F& others) {
    u32 left[2][kDown][4], right[2][kAcross][4];
    const auto take = [&](int k) {
#pragma unroll
      for (int i = 0; i < kDown; ++i) Tile::G::fragment(stage, first_row() + 16 * i, k, left[k % 2][i]);
#pragma unroll
      for (int j = 0; j < kAcross; ++j)
        Tile::X::fragment(stage + Tile::G::Tile::kSize, first_column() + 16 * j, k, right[k % 2][j]);
    };
    take(0);
    for_indices<0, Tile::kDepth / 16>([&](auto index) {
      constexpr int k = decltype(index)::kValue;
      if constexpr (k + 1 < Tile::kDepth / 16) take(k + 1);
      others(index);
#pragma unroll
      for (int j = 0; j < kAcross; ++j) {
        const u32(&four)[4] = right[k % 2][j];
        const u32 low[2] = {four[0], four[2]}, high[2] = {four[1], four[3]};
#pragma unroll
        for (int i = 0; i < kDown; ++i) {
          multiply_fragments<typename Tile::Element>(sums[i][2 * j], left[k % 2][i], low);
          multiply_fragments<typename Tile::Element>(sums[i][2 * j + 1], left[k % 2][i], high);
        }
      }
    });
  }
  // `store` is told each pair of neighbouring columns, counted from the tile's first.
  template <class F>
  UNISONO_DEVICE void each_pair(const F& store) const {
    const int lane = int(threadIdx.x) % 32;
#pragma unroll
    for (int i = 0; i < kDown; ++i)
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int j = 0; j < 2 * kAcross; ++j)
          store(first_row() + 16 * i + 8 * half + lane / 4, first_column() + 8 * j + lane % 4 * 2, sums[i][j][2 * half],
                sums[i][j][2 * half + 1]);
  }
};

// Stores a sum as the filter's element, if the column has one.
template <class Element, bool kF32>
UNISONO_DEVICE void store_gradient(const FilterGradientParams& p, int group, int filter, int column, float sum) {
  const int tap = column / p.tap_columns, channel = column % p.tap_columns;
  if (channel >= p.channels) return;
  const i64 at = (i64(group) * p.filters + filter) * p.result_filter + tap * p.result_tap + channel;
  if constexpr (kF32)
    static_cast<float*>(p.result)[at] = sum;
  else
    static_cast<u16*>(p.result)[at] = u16(Element::pack(sum, sum));
}

// What a CTA sums. CTAs of the same pixels run at the same time, and find them in L2.
template <class Tile>
struct FilterGradientPlace {
  int part, group, first_row, first_column, first_pixel, part_end;
  UNISONO_DEVICE explicit FilterGradientPlace(const FilterGradientParams& p) {
    const int tiles = p.row_tiles * p.column_tiles * p.groups, tile = int(blockIdx.x) % tiles;
    part = int(blockIdx.x) / tiles, group = tile / (p.row_tiles * p.column_tiles);
    first_row = tile / p.column_tiles % p.row_tiles * Tile::kRows,
    first_column = tile % p.column_tiles * Tile::kColumns;
    first_pixel = part * p.part_pixels;
    part_end = first_pixel + p.part_pixels < p.pixels ? first_pixel + p.part_pixels : p.pixels;
  }
};

// Adds up the products of all pixels of the place.
template <class Tile>
UNISONO_DEVICE void sum_gradients(FilterGradientSums<Tile>& own, const FilterGradientParams& p,
                                  const FilterGradientPlace<Tile>& at, u8* shared) {
  const int pixels = at.part_end - at.first_pixel, steps = (pixels + Tile::kDepth - 1) / Tile::kDepth;
  MatrixLoader<typename Tile::G, 2, Tile::kCopyG, Tile::kThreads> gradient;
  TapLoader<Tile> taps;
  gradient.open(p.g, at.first_pixel * p.g_pixel + at.group * p.filters + at.first_row, p.g_pixel, 0,
                p.filters - at.first_row, 0, pixels);
  taps.open(p, at.first_pixel, at.part_end, at.group, at.first_column);
  const auto load = [&](int stage, auto index, auto count) {
    u8* const to = shared + stage * Tile::kStage;
    gradient.template load<decltype(index)::kValue, decltype(count)::kValue>(to);
    taps.template load<decltype(index)::kValue, decltype(count)::kValue>(to + Tile::G::Tile::kSize, p);
  };
  constexpr int kAhead = Tile::kStages - 1;
#pragma unroll
  for (int i = 0; i < kAhead; ++i) {
    if (i < steps) load(i, Index<0>{}, Index<1>{});
    copy_async_commit();
    gradient.advance();
  }
  int stage = 0, free = kAhead;
  for (int i = 0; i < steps; ++i) {
    copy_async_wait<kAhead - 1>();
    __syncthreads();  // the step is there, and all have read the one whose stage is loaded now
    const bool loads = i + kAhead < steps;
    own.add(shared_address(shared) + stage * Tile::kStage, [&](auto index) {
      if (loads) load(free, index, Index<Tile::kDepth / 16>{});
    });
    copy_async_commit();
    gradient.advance();
    if (++stage == Tile::kStages) stage = 0;
    if (++free == Tile::kStages) free = 0;
  }
}

// kF32: of the result; else it has the element's 16 bits.
template <class Tile, bool kF32>
UNISONO_DEVICE void filter_gradient(const FilterGradientParams& p) {
  UNISONO_DYNAMIC_SHARED(shared);
  const FilterGradientPlace<Tile> at(p);
  FilterGradientSums<Tile> own;
  own.clear();
  sum_gradients(own, p, at, shared);
  const i64 partial = i64(at.part) * p.groups + at.group;
  own.each_pair([&](int row, int column, float first, float second) {
    row += at.first_row, column += at.first_column;
    if (row >= p.filters || column >= p.columns) return;
    const bool both = column + 1 < p.columns;
    if (p.parts == 1) {
      store_gradient<typename Tile::Element, kF32>(p, at.group, row, column, first);
      if (both) store_gradient<typename Tile::Element, kF32>(p, at.group, row, column + 1, second);
      return;
    }
    float* const to = static_cast<float*>(p.partials) + (partial * p.filters + row) * p.columns + column;
    if (p.columns % 2 == 0) {
      *reinterpret_cast<float2*>(to) = {first, second};
    } else {
      to[0] = first;
      if (both) to[1] = second;
    }
  });
}

// Adds the parts of every sum, the first to the second and so on.
template <class Element, bool kF32>
UNISONO_DEVICE void filter_gradient_of_parts(const FilterGradientParams& p) {
  const i64 sums = i64(p.groups) * p.filters * p.columns;
  for (i64 i = i64(blockIdx.x) * blockDim.x + threadIdx.x; i < sums; i += i64(gridDim.x) * blockDim.x) {
    const float* from = static_cast<const float*>(p.partials) + i;
    float sum = *from;
#pragma unroll 8
    for (int part = 1; part < p.parts; ++part) sum += from[part * sums];
    const i64 filter = i / p.columns;
    store_gradient<Element, kF32>(p, int(filter / p.filters), int(filter % p.filters), int(i % p.columns), sum);
  }
}

}  // namespace unisono::product
