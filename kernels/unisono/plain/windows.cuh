// Pooling and resizing, an octet a thread.
#pragma once
#include "unisono/epilogue/math.cuh"
#include "unisono/plain/octet.cuh"
#include "unisono/ptx/grid.cuh"

namespace unisono::plain {

// Taps [first, last) of a window from `start` on that lie in [low, high).
struct Taps {
  int first, last;
  UNISONO_DEVICE Taps(int start, int kernel, int dilation, int low, int high) {
    first = smaller(start >= low ? 0 : divide_up(low - start, dilation), kernel);
    last = larger(smaller(start >= high ? 0 : divide_up(high - start, dilation), kernel), first);
  }
  UNISONO_DEVICE int count() const { return last - first; }
};

template <class Element>
UNISONO_DEVICE void pool(const PoolParams& p) {
  const u64 count = u64(p.images) * p.out_height * p.out_width * p.octets;
  for (u64 i = first_index(); i < count; i += index_step()) {
    const Pixel at(i, p.octets, p.out_width, p.out_height);
    const int top = int(at.h) * p.stride_h - p.pad_top, left = int(at.w) * p.stride_w - p.pad_left;
    const Taps lines(top, p.kernel_h, p.dilation_h, 0, int(p.height)),
        columns(left, p.kernel_w, p.dilation_w, 0, int(p.width));
    Octet y;
#pragma unroll
    for (int k = 0; k < 8; ++k) y.of[k] = p.average ? 0.f : -__int_as_float(0x7f800000);
    for (int r = lines.first; r < lines.last; ++r)
      for (int s = columns.first; s < columns.last; ++s) {
        const u64 row = (u64(at.n) * p.height + u32(top + r * p.dilation_h)) * p.width + u32(left + s * p.dilation_w);
        const Octet x = load_octet<Element>(p.from, row, 8 * at.octet);
#pragma unroll
        for (int k = 0; k < 8; ++k) y.of[k] = p.average ? y.of[k] + x.of[k] : math::max(y.of[k], x.of[k]);
      }
    if (p.average) {
      int terms = lines.count() * columns.count();
      if (p.count_pad)
        terms = Taps(top, p.kernel_h, p.dilation_h, -p.pad_top, int(p.height) + p.pad_bottom).count() *
                Taps(left, p.kernel_w, p.dilation_w, -p.pad_left, int(p.width) + p.pad_right).count();
#pragma unroll
      for (int k = 0; k < 8; ++k) y.of[k] /= float(terms);
    }
    store_octet<Element>(p.to, at.row(p.out_width, p.out_height), 8 * at.octet, y);
  }
}

// The mean of each channel of an image, in a fixed order: a thread sums every (256 / width)th pixel of an octet, and
// the threads' sums are joined in halves.
template <class Element>
UNISONO_DEVICE void pool_images(const PoolImagesParams& p) {
  constexpr u32 kThreads = 256;
  __shared__ Octet sums[kThreads];
  const u32 chunks = (p.octets - 1) / p.width + 1, lane = threadIdx.x / p.width, lanes = kThreads / p.width;
  for (u64 block = blockIdx.x; block < u64(p.images) * chunks; block += gridDim.x) {
    const u32 image = u32(block / chunks), octet = u32(block % chunks) * p.width + threadIdx.x % p.width;
    Octet sum;
#pragma unroll
    for (int k = 0; k < 8; ++k) sum.of[k] = 0.f;
    if (octet < p.octets)
#pragma unroll 8
      for (u32 pixel = lane; pixel < p.pixels; pixel += lanes) {
        const Octet x = load_octet<Element>(p.from, u64(image) * p.pixels + pixel, 8 * octet);
#pragma unroll
        for (int k = 0; k < 8; ++k) sum.of[k] += x.of[k];
      }
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (u32 half = lanes / 2; half > 0; half /= 2) {
      if (lane < half)
#pragma unroll
        for (int k = 0; k < 8; ++k) sums[threadIdx.x].of[k] += sums[threadIdx.x + half * p.width].of[k];
      __syncthreads();
    }
    if (lane == 0 && octet < p.octets) {
      sum = sums[threadIdx.x];
#pragma unroll
      for (int k = 0; k < 8; ++k) sum.of[k] /= float(p.pixels);
      store_octet<Element>(p.to, image, 8 * octet, sum);
    }
    __syncthreads();
  }
}

UNISONO_DEVICE Octet between(const Octet& low, const Octet& high, float weight) {
  Octet y;
#pragma unroll
  for (int k = 0; k < 8; ++k) y.of[k] = (1.f - weight) * low.of[k] + weight * high.of[k];
  return y;
}

template <class Element>
UNISONO_DEVICE void resize(const ResizeParams& p) {
  const u64 count = u64(p.images) * p.out_height * p.out_width * p.octets;
  for (u64 i = first_index(); i < count; i += index_step()) {
    const Pixel at(i, p.octets, p.out_width, p.out_height);
    auto source = [&](int h, int w) {
      return load_octet<Element>(p.from, (u64(at.n) * p.height + u32(h)) * p.width + u32(w), 8 * at.octet);
    };
    const int top = __ldg(p.row_low + at.h), left = __ldg(p.column_low + at.w);
    Octet y = source(top, left);
    if (p.row_weight != nullptr) {
      const int bottom = __ldg(p.row_high + at.h), right = __ldg(p.column_high + at.w);
      const float across = __ldg(p.column_weight + at.w);
      y = between(between(y, source(top, right), across), between(source(bottom, left), source(bottom, right), across),
                  __ldg(p.row_weight + at.h));
    }
    store_octet<Element>(p.to, at.row(p.out_width, p.out_height), 8 * at.octet, y);
  }
}

}  // namespace unisono::plain
