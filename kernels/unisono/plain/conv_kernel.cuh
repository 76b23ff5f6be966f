// The kernel of plain/conv.cuh. A configuration is a struct:
//   using Image, Filter = Bf16, F16 or Tf32;             // in memory; Tf32 is f32, of which all bits count here; of a
//                                                        // dual product Filter is Two<...>
//   static constexpr int kTileM, kTileN, kTileK;         // rows, channels, and taps x channels of a step
//   static constexpr int kEachM, kEachN, kThreads;       // sums of a thread
//   static constexpr int kBlocks;                        // CTAs that an SM has room for
//   static constexpr bool kDirect;                       // without tiles of operands; kEachM and kEachN are 1
//   static constexpr bool kTransposed;                   // of a transposed convolution
//   static constexpr bool kRowsFirst, kColumnsFirst;     // neighbours in memory are rows of the image, outputs of the
//                                                        // filter; else channels
//   static constexpr bool kPlanes;                       // the output's channels come first
//   static constexpr bool kGeneral;                      // the visitor is one of epilogue/general.cuh, without any
//                                                        // reduction
//   static constexpr bool kNormalises, kPerPixel;        // over an image's rows, or all images'; over a row's channels
#pragma once
#include "unisono/epilogue/folds.cuh"
#include "unisono/epilogue/operands.cuh"
#include "unisono/epilogue/visitor.cuh"
#include "unisono/params/plain_conv_params.cuh"
#include "unisono/ptx/global.cuh"
#include "unisono/ptx/grid.cuh"

namespace unisono {

// The filters of a dual product, alike.
template <class Element>
struct Two {};
template <class Filter>
struct PlainFilters {
  using Element = Filter;
  static constexpr int kProducts = 1;
};
template <class Filter>
struct PlainFilters<Two<Filter>> : PlainFilters<Filter> {
  static constexpr int kProducts = 2;
};

template <class Config, class Visitor>
struct PlainConv {
  using Image = typename Config::Image;
  using Filter = typename PlainFilters<typename Config::Filter>::Element;
  static constexpr int kProducts = PlainFilters<typename Config::Filter>::kProducts;
  using Uniform = typename Visitor::Uniform;
  struct Params {
    PlainConvParams fixed;
    typename Visitor::Params visitor;
  };
  static constexpr int kTileM = Config::kTileM, kTileN = Config::kTileN, kTileK = Config::kTileK;
  static constexpr int kEachM = Config::kEachM, kEachN = Config::kEachN, kThreads = Config::kThreads,
                       kBlocks = Config::kBlocks;
  static constexpr int kDown = kTileM / kEachM, kAcross = kTileN / kEachN;                   // threads
  static constexpr int kPitchA = kTileM + 4, kPitchB = kTileN + 4, kPitchSums = kTileN + 1;  // floats
  static_assert(kDown * kAcross == kThreads, "a thread has its own part of the tile");
  static_assert(!Config::kDirect || kEachM * kEachN == 1, "one sum a thread");

  const Params& params;
  float* const shared;
  const Uniform uniform;

  UNISONO_DEVICE const PlainConvGeometry& geometry() const { return params.fixed.geometry; }
  UNISONO_DEVICE const PlainNormParams& norm() const { return params.fixed.norm; }

  // A tile: the range of rows that it is of, its first row there, its group of channels and the first one there.
  struct Tile {
    int range, row, group, output;
    UNISONO_DEVICE Tile(const PlainConvGeometry& g, int tile) {
      const int down = divided(tile, g.by_tiles_across);
      const int across = tile - down * (Config::kDirect ? g.tiles_n : g.tiles_n * g.groups);
      range = divided(down, g.by_tiles_m), row = (down - range * g.tiles_m) * kTileM;
      group = Config::kDirect ? 0 : divided(across, g.by_tiles_n), output = (across - group * g.tiles_n) * kTileN;
    }
  };

  // A row of the output: its image, and its pixel there.
  struct Row {
    int m, image, pixel;
    UNISONO_DEVICE Row(const PlainConvGeometry& g, int of) : m(of), image(divided(of, g.by_rows)) {
      pixel = of - image * g.rows;
    }
    UNISONO_DEVICE Where where() const { return {image, m}; }
  };

  // Where the taps of an output pixel begin in the image.
  struct Corner {
    int h, w;
    i64 base;  // of the pixel's image
    UNISONO_DEVICE Corner(const PlainConvGeometry& g, const Row& at) {
      const int line = divided(at.pixel, g.by_width), column = at.pixel - line * g.width;
      h = Config::kTransposed ? line + g.pad_h : line * g.stride_h - g.pad_h;
      w = Config::kTransposed ? column + g.pad_w : column * g.stride_w - g.pad_w;
      base = at.image * g.image_n;
    }
  };

  // The input's coordinate that a tap of an output reads, `offset` from its corner; below 0 if there is none.
  static UNISONO_DEVICE int source(int corner, int offset, int stride, const Divisor& by_stride) {
    if constexpr (!Config::kTransposed) return corner + offset;
    const int line = corner - offset;
    if (line < 0) return -1;
    const int at = divided(line, by_stride);
    return at * stride == line ? at : -1;
  }
  // Whether tap (r, s) lies in the image, and the offset of that pixel.
  UNISONO_DEVICE bool find_pixel(const Corner& corner, int r, int s, i64& offset) const {
    const PlainConvGeometry& g = geometry();
    const int h = source(corner.h, r * g.dilation_h, g.stride_h, g.by_stride_h),
              w = source(corner.w, s * g.dilation_w, g.stride_w, g.by_stride_w);
    offset = corner.base + h * g.image_h + w * g.image_w;
    return unsigned(h) < unsigned(g.in_height) && unsigned(w) < unsigned(g.in_width);
  }

  template <class Element>
  static UNISONO_DEVICE float load(const void* memory, i64 offset) {
    return widened(Element{}, __ldg(static_cast<const typename Element::Word*>(memory) + offset));
  }

  static UNISONO_DEVICE void run(const Params& params) {
    begin();
    UNISONO_DYNAMIC_SHARED(memory);
    const PlainConv conv{params, reinterpret_cast<float*>(memory), Visitor::uniform(params.visitor)};
    for (int tile = int(blockIdx.x); tile < conv.geometry().tiles; tile += int(gridDim.x)) {
      if constexpr (Config::kDirect)
        conv.direct(Tile(conv.geometry(), tile));
      else
        conv.multiply(Tile(conv.geometry(), tile));
    }
    if constexpr (Config::kNormalises) conv.normalise();
  }

  // --- the sums: plain/conv_tile.cuh -------------------------------------------------------------------------

  static constexpr int kLoadsA = divide_up(kTileM * kTileK, kThreads), kLoadsB = divide_up(kTileN * kTileK, kThreads);
  UNISONO_DEVICE void multiply(const Tile& tile) const;
  UNISONO_DEVICE void load_a(const Tile& tile, int step, float (&a)[kLoadsA]) const;
  UNISONO_DEVICE void load_b(const Tile& tile, int step, const void* filter, float (&b)[kLoadsB]) const;
  UNISONO_DEVICE void put(const float (&a)[kLoadsA], const float (&b)[kLoadsB]) const;
  UNISONO_DEVICE void add(float (&sum)[kEachM][kEachN]) const;
  UNISONO_DEVICE void sum_up(const Tile& tile, const void* filter, float (&sum)[kEachM][kEachN]) const;
  UNISONO_DEVICE void stage(const float (&sum)[kEachM][kEachN], float* sums) const;
  UNISONO_DEVICE void direct(const Tile& tile) const;
  UNISONO_DEVICE float direct_sum(const Tile& tile, const Row& at, int channel, const void* filters) const;
  UNISONO_DEVICE const void* filter(int product) const {
    return product == 0 ? params.fixed.filter : params.fixed.filter1;
  }

  // --- the epilogue: plain/conv_epilogue.cuh -----------------------------------------------------------------

  // Column values of the channel that a thread is at, for as long as it stays there.
  struct Columns;
  // An element's sums; the second of a dual product, which the visitor finds after the operands [m,n].
  struct Sums {
    float first, second;
    template <int kTensors, int kSize>
    UNISONO_DEVICE void put_second(float (&tensor)[kSize]) const {
      if constexpr (kProducts > 1) tensor[kTensors] = second;
    }
  };
  UNISONO_DEVICE void finish(const Tile& tile) const;
  UNISONO_DEVICE void finish_sum(const Sums& sum, const Row& at, int channel, Columns& columns) const;
  UNISONO_DEVICE void finish_plain(const Sums& x, const Row& at, int channel, float raw, const Columns& columns) const;
  UNISONO_DEVICE void finish_general(const Sums& sum, const Row& at, int channel, const Columns& columns) const;
  // Where an element of an operand [m,n], or of a store, lies.
  UNISONO_DEVICE u64 offset(const Row& at, int channel) const {
    const PlainConvGeometry& g = geometry();
    if constexpr (Config::kPlanes) return (u64(at.image) * g.channels + channel) * g.rows + at.pixel;
    return u64(at.m) * g.channels + channel;
  }
  // The same in the main store, whose rows may lie further apart.
  UNISONO_DEVICE u64 main_offset(const Row& at, int channel) const {
    if constexpr (Config::kPlanes) return offset(at, channel);
    return u64(at.m) * params.fixed.main_pitch + channel;
  }
  template <int i, int kEnd>
  UNISONO_DEVICE void load_tensors(const Row& at, int channel, float* tensor) const {
    if constexpr (i < kEnd) {
      const auto source = Visitor::template tensor<i>(params.visitor);
      *tensor = source.element(source.offset(offset(at, channel), u64(at.m), channel));
      load_tensors<i + 1, kEnd>(at, channel, tensor + 1);
    }
  }

  // --- a normalisation: plain/conv_norm.cuh ------------------------------------------------------------------

  UNISONO_DEVICE void normalise() const;
  UNISONO_DEVICE void meet() const;
  UNISONO_DEVICE void make_statistics() const;
  UNISONO_DEVICE float sum_of_cta(float x) const;
  template <class Value>
  UNISONO_DEVICE float sum_over(int row, int rows, int channel, int channels, const Value& value) const;
  UNISONO_DEVICE void normalise_elements() const;
};

}  // namespace unisono
