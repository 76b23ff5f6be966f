// The kernel of sm90/depthwise.cuh. A configuration is a struct:
//   using Element = Bf16, F16 or Tf32;
//   static constexpr int kWide, kVector, kTileN, kThreads, kBlocks;   // kBlocks: that an SM has registers for
//   static constexpr int kTapsH, kTapsW, kStrideH, kStrideW;   // kTapsH 0: of any filter, stride and dilation, tap
//                                                              // by tap, each from memory
//   static constexpr int kMultiplier;                          // output channels of an input channel: divides
//                                                              // kVector
//   static constexpr bool kFlipped;                            // may be left out: taps in reverse
//   static constexpr bool kGeneral;                            // the visitor is one of epilogue/general.cuh, without
//                                                              // any reduction
#pragma once
#include "unisono/epilogue/folds.cuh"
#include "unisono/epilogue/visitor.cuh"
#include "unisono/params/params.cuh"
#include "unisono/ptx/bundle.cuh"
#include "unisono/ptx/grid.cuh"
#include "unisono/tile/layout.cuh"

namespace unisono {

// Config::kFlipped: the filter's taps are read in reverse, of a transposed convolution.
template <class Config, class = void>
struct TapsInReverse {
  static constexpr bool kValue = false;
};
template <class Config>
struct TapsInReverse<Config, typename Said<Config::kFlipped>::Type> {
  static constexpr bool kValue = Config::kFlipped;
};

template <class Config, class Visitor>
struct Depthwise {
  using Element = typename Config::Element;
  using Word = typename Element::Word;
  struct Params {
    DepthwiseParams fixed;
    typename Visitor::Params visitor;
  };
  static constexpr int kWide = Config::kWide, kVector = Config::kVector, kTileN = Config::kTileN,
                       kThreads = Config::kThreads, kBlocks = Config::kBlocks;
  static constexpr int kR = Config::kTapsH, kS = Config::kTapsW, kStrideH = Config::kStrideH,
                       kStrideW = Config::kStrideW;
  static constexpr int kInputs = kVector / Config::kMultiplier, kBytes = kInputs * int(sizeof(Word));  // of a load
  static constexpr int kVectors = kTileN / kVector,
                       kStrips = kThreads / kVectors;  // of a CTA: across, along the pixels
  static constexpr bool kAnyFilter = kR == 0;
  static constexpr int kTaps = larger(1, kR* kS);
  static constexpr int kColumnsIn = (kWide - 1) * kStrideW + kS,
                       kOverlap = larger(1, divide_up(kR, kStrideH));  // image rows of outputs that read an input's
  static constexpr int kAhead = kColumnsIn * kBytes > 48 ? 1 : 2;
  static constexpr int kFilterPitch = kTileN + 4;  // floats from tap to tap
  static constexpr int kTensors = Visitor::kTensors, kColumns = Visitor::kColumnsAfter;
  static_assert(kThreads % kVectors == 0 && kTileN % kVector == 0 && kVector % Config::kMultiplier == 0,
                "threads, and vectors, are whole");
  static_assert(Visitor::kTensorsBefore == 0 && Visitor::kColumnsBefore == 0 && !Visitor::kRaw,
                "nothing is normalised");

  using Line = Bundle<kBytes>[larger(1, kColumnsIn)];
  using Sums = float[kWide][kVector];  // sums of an image row of outputs
  using Columns = float[kVector][larger(1, kColumns)];
  using Tensors = float[kVector][larger(1, kTensors)];
  using Uniform = typename Visitor::Uniform;
  struct Finish;

  const Params& params;
  const DepthwiseImage& image;
  const float* filter;  // of this thread's channels
  const Word* base;     // of the image, its first channel of this thread
  int channel, n;       // the first output channel; the image
  int h, w;             // the first output pixel

  UNISONO_DEVICE const ConvGeometry& geometry() const { return params.fixed.geometry; }

  // The first pixel of tile i along an axis whose lattice has every step-th pixel.
  static UNISONO_DEVICE int first_pixel(u32 i, int each, int step) {
    if (step == 1) return int(i) * each;
    return int(i) / step * (each * step) + int(i) % step;
  }

  static UNISONO_DEVICE void run(const Params& params) {
    begin();
    UNISONO_DYNAMIC_SHARED(memory);
    float* const filters = reinterpret_cast<float*>(memory);
    const ConvGeometry& g = params.fixed.geometry;
    const DepthwiseImage& image = reinterpret_cast<const DepthwiseImage&>(params.fixed.image);
    const u32 group = divided(blockIdx.x, image.by_channel_tiles);
    const int first_channel = int(blockIdx.x - group * g.tiles_n) * kTileN;
    const int vector = int(threadIdx.x) % kVectors, channel = first_channel + vector * kVector;
    const u32 strip = group * kStrips + threadIdx.x / kVectors;
    const bool exists = channel < g.channels && strip < image.strips;
    // Images, bands of neighbouring rows of strips, columns, rows: so that a CTA's strips share most of their edges
    const u32 n = divided(strip, image.by_image), of_image = strip - n * image.image_strips;
    const u32 band = divided(of_image, image.by_band), of_band = of_image - band * image.band_strips;
    const u32 column = divided(of_band, image.by_lines),
              line = of_band - column * image.band_lines + band * image.band_lines;
    const Word* const base =
        static_cast<const Word*>(image.memory) + n * image.step_image + channel / Config::kMultiplier;
    const int h = first_pixel(line, image.strip_lines, image.lattice_h),
              w = first_pixel(column, kWide, image.lattice_w);
    const Depthwise thread{params, image, filters + vector * kVector, base, channel, int(n), h, w};
    if constexpr (kAnyFilter) {
      load_filters(params, filters, first_channel);
      __syncthreads();
      if (exists) thread.multiply_taps();
    } else {
      Ahead ahead;
      if (exists) thread.load_ahead(ahead);  // together with the filters
      load_filters(params, filters, first_channel);
      __syncthreads();
      if (exists) thread.slide(ahead);
    }
  }

  // (K, R, S) as [tap][channel]; zero for channels that do not exist.
  static UNISONO_DEVICE void load_filters(const Params& params, float* filters, int first_channel);

  // This thread's channels of a tap.
  UNISONO_DEVICE void load_tap(int tap, float (&f)[kVector]) const;

  static UNISONO_DEVICE void widen(const Bundle<kBytes>& from, float (&x)[kInputs]);

  static UNISONO_DEVICE Bundle<kBytes> load(bool exists, const Word* from) {
    return exists ? Bundle<kBytes>::load(from) : Bundle<kBytes>{};
  }

  // Where the columns of the next image row under this thread's pixels lie, and which are in the image.
  struct Lines {
    const Word* at[larger(1, kColumnsIn)];
    i64 step;  // from image row to image row, in elements
    int y, step_y;
    int end[larger(1, kColumnsIn)];  // after the last image row that is read; 0 for columns outside

    // The next image row; outside the image zeros.
    UNISONO_DEVICE void load(Line& line) {
#pragma unroll
      for (int j = 0; j < kColumnsIn; ++j) {
        line[j] = Depthwise::load(unsigned(y) < unsigned(end[j]), at[j]);
        at[j] += step;
      }
      y += step_y;
    }
  };
  UNISONO_DEVICE Lines first_lines() const {
    const ConvGeometry& g = geometry();
    Lines all;
    all.y = h * kStrideH - g.pad_h, all.step_y = g.dilation_h, all.step = g.dilation_h * image.step_h;
    const int end =
        larger(0, smaller(image.height, all.y + ((image.strip_lines - 1) * kStrideH + kR - 1) * g.dilation_h + 1));
    const int left = w * kStrideW - g.pad_w;
    const Word* const first = base + all.y * image.step_h + left * image.step_w;
    const i64 step = g.dilation_w * image.step_w;
#pragma unroll
    for (int j = 0; j < kColumnsIn; ++j) {
      all.at[j] = first + j * step;
      all.end[j] = unsigned(left + j * g.dilation_w) < unsigned(image.width) ? end : 0;
    }
    return all;
  }

  // The image rows that are loaded before their use, and where the next one lies.
  struct Ahead {
    Lines next;
    Line line[kAhead + 1];
  };
  UNISONO_DEVICE void load_ahead(Ahead& ahead) const {
    ahead.next = first_lines();
#pragma unroll
    for (int i = 0; i < kAhead; ++i) ahead.next.load(ahead.line[i]);
  }

  // Filters of a size that is known: each input is widened once, and multiplied by all taps that meet it.
  UNISONO_DEVICE void slide(Ahead& ahead) const;
  // This many output rows that the registers have changed round: t = first, first + 1, … The first rows of a strip have
  // none before them; rows after the last are computed, and not stored. Whether the strip is complete.
  template <bool kFirst>
  UNISONO_DEVICE bool group(int first, Ahead& ahead, const float (&kept)[kTaps][kVector], Sums (&sums)[kOverlap],
                            const Finish& finish) const;

  static UNISONO_DEVICE void clear(Sums& sums) {
#pragma unroll
    for (int q = 0; q < kWide; ++q)
#pragma unroll
      for (int v = 0; v < kVector; ++v) sums[q][v] = 0.f;
  }
  static UNISONO_DEVICE void copy(Sums& to, const Sums& from) {
#pragma unroll
    for (int q = 0; q < kWide; ++q)
#pragma unroll
      for (int v = 0; v < kVector; ++v) to[q][v] = from[q][v];
  }
  static UNISONO_DEVICE void copy(Line& to, const Line& from) {
#pragma unroll
    for (int j = 0; j < kColumnsIn; ++j) to[j] = from[j];
  }
  static UNISONO_DEVICE void multiply(float (&sum)[kVector], const float (&x)[kInputs], const float (&f)[kVector]) {
#pragma unroll
    for (int v = 0; v < kVector; ++v) sum[v] = x[v / Config::kMultiplier] * f[v];
  }
  static UNISONO_DEVICE void add(float (&sum)[kVector], const float (&x)[kInputs], const float (&f)[kVector]) {
#pragma unroll
    for (int v = 0; v < kVector; ++v) sum[v] = fmaf(x[v / Config::kMultiplier], f[v], sum[v]);
  }

  // Adds image row u of the step of output row t: tap u reads it for output row t, and tap u + k·stride for output row
  // t - k, if k is at most `most`.
  UNISONO_DEVICE void add_line(int most, int u, const Line& line, const float (&kept)[kTaps][kVector],
                               Sums (&sums)[kOverlap]) const;

  // Any filter, stride and dilation.
  UNISONO_DEVICE void multiply_taps() const;

  // --- the epilogue ------------------------------------------------------------------------------------------

  UNISONO_DEVICE const PitchedOutput& output() const {
    return reinterpret_cast<const PitchedOutput&>(params.fixed.output);
  }

  // What the image rows of a strip share.
  struct Finish {
    const Depthwise& of;
    const Uniform uniform;
    u8* to;              // the main store's first pixel
    i64 step_h, step_w;  // from there, in bytes
    int m;               // of the first pixel
    bool inside[kWide];
    Columns columns;

    explicit UNISONO_DEVICE Finish(const Depthwise& thread)
        : of(thread), uniform(Visitor::uniform(thread.params.visitor)) {
      const ConvGeometry& g = of.geometry();
      const i64 pitch = 2 * of.output().pitch;
      m = (of.n * g.height + of.h) * g.width + of.w;
      to = static_cast<u8*>(of.output().memory) + m * pitch + 2 * of.channel;
      step_w = pitch * of.image.lattice_w, step_h = pitch * g.width * of.image.lattice_h;
#pragma unroll
      for (int q = 0; q < kWide; ++q) inside[q] = of.w + q * of.image.lattice_w < g.width;
#pragma unroll
      for (int v = 0; v < kVector; ++v)
        Visitor::columns_after(of.params.visitor, uniform, of.n, of.channel + v, columns[v]);
    }
    UNISONO_DEVICE void line(int p, const Sums& sums) const {
      const int down = p * of.image.lattice_h, first = m + down * of.geometry().width;
      const bool exists = of.h + down < of.geometry().height;
      u8* const line = to + p * step_h;
#pragma unroll
      for (int q = 0; q < kWide; ++q) {
        const Where at{of.n, first + q * of.image.lattice_w};
        const Target target{exists && inside[q], line + q * step_w};
        of.finish(Either<Config::kGeneral, General, Plain>(), at, target, sums[q], columns, uniform);
      }
    }
  };

  // Where the main store has this thread's channels of a pixel, if there is one.
  struct Target {
    bool exists;
    u8* memory;
  };
  UNISONO_DEVICE u64 offset(const Where& at) const { return u64(at.m) * geometry().channels + channel; }

  UNISONO_DEVICE void load_tensors(const Where& at, bool exists, Tensors& tensors) const {
    for_indices<0, kTensors>([&](auto i) { this->load_tensor<i.kValue>(at, exists, tensors); });
  }
  template <int i>
  UNISONO_DEVICE void load_tensor(const Where& at, bool exists, Tensors& tensors) const;

  using Packed = Bundle<2 * kVector>;
  static UNISONO_DEVICE Packed bundle(const u32 (&words)[kVector / 2]) {
    Packed all;
#pragma unroll
    for (int i = 0; i < kVector / 2; ++i) all.word[i] = words[i];
    return all;
  }
  UNISONO_DEVICE void store(const Where&, const Target& target, const PackedPairs<kVector / 2, false>& pairs) const {
    bundle(pairs.main).store(target.memory);
  }
  UNISONO_DEVICE void store(const Where& at, const Target& target, const PackedPairs<kVector / 2, true>& pairs) const {
    bundle(pairs.main).store(target.memory);
    bundle(pairs.side).store(static_cast<u16*>(params.fixed.side_memory) + offset(at));
  }

  // A pixel's vector of channels: without a normalisation `after` is all that a visitor has, or it is a general one's.
  struct Plain {};
  struct General {};
  UNISONO_DEVICE void finish(Plain, const Where& at, const Target& target, const float (&sum)[kVector],
                             const Columns& columns, const Uniform& uniform) const;
  UNISONO_DEVICE void finish(General, const Where& at, const Target& target, const float (&sum)[kVector],
                             const Columns& columns, const Uniform& uniform) const;
};

}  // namespace unisono
