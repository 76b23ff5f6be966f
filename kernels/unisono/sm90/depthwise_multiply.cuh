// The products of a depthwise convolution: filters of a known size by image rows that slide, others tap by tap.
#pragma once
#include "unisono/sm90/depthwise_kernel.cuh"

namespace unisono {

template <class Config, class Visitor>
UNISONO_DEVICE void Depthwise<Config, Visitor>::load_filters(const Params& params, float* filters, int first_channel) {
  const ConvGeometry& g = params.fixed.geometry;
  const Word* const from =
      static_cast<const Word*>(reinterpret_cast<const DepthwiseFilter&>(params.fixed.filter).memory);
  const int taps = kAnyFilter ? g.taps_h * g.taps_w : kR * kS, count = taps * kTileN;
  const int exist = taps * smaller(kTileN, g.channels - first_channel);
  constexpr int kAtOnce = kAnyFilter ? 4 : smaller(16, divide_up(kTaps * kTileN, kThreads));  // loads on their way
  for (int begin = int(threadIdx.x); begin < count; begin += kAtOnce * kThreads) {
    Word words[kAtOnce]{};
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j)
      if (const int i = begin + j * kThreads; i < exist) words[j] = __ldg(from + size_t(first_channel) * taps + i);
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      const int i = begin + j * kThreads, c = i / taps, at = i - c * taps,
                tap = TapsInReverse<Config>::kValue ? taps - 1 - at : at;
      if (i < count) filters[tap * kFilterPitch + c] = widened(Element(), words[j]);
    }
  }
}

template <class Config, class Visitor>
UNISONO_DEVICE void Depthwise<Config, Visitor>::load_tap(int tap, float (&f)[kVector]) const {
  const float* at = filter + tap * kFilterPitch;
  if constexpr (kVector == 2) {
    const float2 pair = *reinterpret_cast<const float2*>(at);
    f[0] = pair.x, f[1] = pair.y;
  } else {
#pragma unroll
    for (int v = 0; v < kVector; v += 4) {
      const float4 four = *reinterpret_cast<const float4*>(at + v);
      f[v] = four.x, f[v + 1] = four.y, f[v + 2] = four.z, f[v + 3] = four.w;
    }
  }
}

template <class Config, class Visitor>
UNISONO_DEVICE void Depthwise<Config, Visitor>::widen(const Bundle<kBytes>& from, float (&x)[kInputs]) {
  if constexpr (sizeof(Word) == 4) {
#pragma unroll
    for (int v = 0; v < kInputs; ++v) x[v] = widened(Element(), from.word[v]);
  } else if constexpr (kInputs == 1) {
    x[0] = widened(Element(), u16(from.word[0]));
  } else {
#pragma unroll
    for (int v = 0; v < kInputs / 2; ++v) {
      const float2 pair = Element::unpack(from.word[v]);
      x[2 * v] = pair.x, x[2 * v + 1] = pair.y;
    }
  }
}

template <class Config, class Visitor>
UNISONO_DEVICE void Depthwise<Config, Visitor>::slide(Ahead& ahead) const {
  const Finish finish(*this);
  float kept[kTaps][kVector];
#pragma unroll
  for (int tap = 0; tap < kTaps; ++tap) load_tap(tap, kept[tap]);
  Sums sums[kOverlap];  // those of output rows t, t - 1, …
#pragma unroll
  for (int k = 0; k < kOverlap; ++k) clear(sums[k]);
  if (group<true>(0, ahead, kept, sums, finish)) return;
#pragma unroll 1
  for (int first = kOverlap;; first += kOverlap)
    if (group<false>(first, ahead, kept, sums, finish)) return;
}

template <class Config, class Visitor>
template <bool kFirst>
UNISONO_DEVICE bool Depthwise<Config, Visitor>::group(int first, Ahead& ahead, const float (&kept)[kTaps][kVector],
                                                      Sums (&sums)[kOverlap], const Finish& finish) const {
#pragma unroll
  for (int i = 0; i < kOverlap; ++i) {
#pragma unroll
    for (int u = 0; u < kStrideH; ++u) {
      ahead.next.load(ahead.line[kAhead]);
      add_line(kFirst ? i : kOverlap - 1, u, ahead.line[0], kept, sums);
#pragma unroll
      for (int a = 0; a < kAhead; ++a) copy(ahead.line[a], ahead.line[a + 1]);
    }
    const int done = first + i - kOverlap + 1;
    if (!kFirst || i == kOverlap - 1) {
      finish.line(done, sums[kOverlap - 1]);
      if (done + 1 == image.strip_lines) return true;
    }
#pragma unroll
    for (int k = kOverlap - 1; k > 0; --k) copy(sums[k], sums[k - 1]);
  }
  return false;
}

template <class Config, class Visitor>
UNISONO_DEVICE void Depthwise<Config, Visitor>::add_line(int most, int u, const Line& line,
                                                         const float (&kept)[kTaps][kVector],
                                                         Sums (&sums)[kOverlap]) const {
  float x[kColumnsIn][kInputs];
#pragma unroll
  for (int j = 0; j < kColumnsIn; ++j) widen(line[j], x[j]);
#pragma unroll
  for (int k = 0; k < kOverlap; ++k) {
    const int r = u + k * kStrideH;
    if (r >= kR || k > most) continue;
#pragma unroll
    for (int s = 0; s < kS; ++s)
#pragma unroll
      for (int q = 0; q < kWide; ++q) {
        if (r == 0 && s == 0)
          multiply(sums[k][q], x[q * kStrideW], kept[0]);
        else
          add(sums[k][q], x[q * kStrideW + s], kept[r * kS + s]);
      }
  }
}

template <class Config, class Visitor>
UNISONO_DEVICE void Depthwise<Config, Visitor>::multiply_taps() const {
  const ConvGeometry& g = geometry();
  const Finish finish(*this);
  const int left = w * g.stride_w - g.pad_w;
  const Word* const from = base + left * image.step_w;
#pragma unroll 1
  for (int p = 0; p < image.strip_lines; ++p) {
    Sums sums;
    clear(sums);
#pragma unroll 1
    for (int r = 0; r < g.taps_h; ++r) {
      const int y = (h + p) * g.stride_h - g.pad_h + r * g.dilation_h;
      if (unsigned(y) >= unsigned(image.height)) continue;
#pragma unroll 1
      for (int s = 0; s < g.taps_w; ++s) {
        float f[kVector];
        load_tap(r * g.taps_w + s, f);
        Bundle<kBytes> of[kWide];
#pragma unroll
        for (int q = 0; q < kWide; ++q) {
          const int x = q * g.stride_w + s * g.dilation_w;
          of[q] = load(unsigned(left + x) < unsigned(image.width), from + y * image.step_h + x * image.step_w);
        }
#pragma unroll
        for (int q = 0; q < kWide; ++q) {
          float x[kInputs];
          widen(of[q], x);
          add(sums[q], x, f);
        }
      }
    }
    finish.line(p, sums);
  }
}

}  // namespace unisono
