// Images summed over their pixels.
#pragma once
#include "unisono/plain/octet.cuh"
#include "unisono/ptx/grid.cuh"

namespace unisono::plain {

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

}  // namespace unisono::plain
