// The mean over an image's pixels, and two layers of it: the gate of a squeeze-and-excitation block. A cluster of CTAs
// has an image; what one CTA computes for the others goes through global memory.
#pragma once
#include "unisono/epilogue/math.cuh"
#include "unisono/plain/octet.cuh"
#include "unisono/ptx/grid.cuh"

namespace unisono::plain {

constexpr u32 kLayerCtas = 8, kLayerThreads = 256;  // of an image, of a CTA

UNISONO_DEVICE u32 in_octets(u32 count) { return (count + 7) / 8; }

// Sums over the pixels that are this CTA's share, one for each channel. `parts`: of each thread, in shared memory.
template <class Element>
UNISONO_DEVICE void sum_pixels(const SmallLayersParams& p, u32 image, u32 rank, float* sums, Octet* parts) {
  const u32 octets = in_octets(p.channels);
  u32 width = 1;  // neighbouring threads that have neighbouring octets
  while (width < octets && width < kLayerThreads) width *= 2;
  const u32 lane = threadIdx.x / width, lanes = kLayerThreads / width;
  const u32 first = u32(u64(p.pixels) * rank / kLayerCtas), end = u32(u64(p.pixels) * (rank + 1) / kLayerCtas);
  for (u32 chunk = 0; chunk < octets; chunk += width) {
    const u32 octet = chunk + threadIdx.x % width;
    Octet sum;
#pragma unroll
    for (int k = 0; k < 8; ++k) sum.of[k] = 0.f;
    if (octet < octets)
#pragma unroll 8
      for (u32 pixel = first + lane; pixel < end; pixel += lanes) {
        const Octet x = load_octet<Element>(p.from, u64(image) * p.pixels + pixel, 8 * octet);
#pragma unroll
        for (int k = 0; k < 8; ++k) sum.of[k] += x.of[k];
      }
    parts[threadIdx.x] = sum;
    __syncthreads();
    for (u32 half = lanes / 2; half > 0; half /= 2) {
      if (lane < half)
#pragma unroll
        for (int k = 0; k < 8; ++k) parts[threadIdx.x].of[k] += parts[threadIdx.x + half * width].of[k];
      __syncthreads();
    }
    if (lane == 0 && octet < octets)
#pragma unroll
      for (int k = 0; k < 8; ++k) sums[8 * octet + k] = parts[threadIdx.x].of[k];
    __syncthreads();
  }
}

// Where input c of a layer lies in shared memory: the lanes of a warp, which have an octet each, find theirs in as many
// banks.
UNISONO_DEVICE u32 place_of(u32 c, u32 octets) { return c % 8 * octets + c / 8; }

// Calls put(output, sum) for each of this CTA's outputs. `filter`: rows of `inputs` elements, padded with zeros to
// octets; `input` likewise, in shared memory.
template <class Element, class Put>
UNISONO_DEVICE void layer(const PlainTensor& filter, const float* input, u32 inputs, u32 outputs, u32 rank,
                          const Put& put) {
  const u32 octets = in_octets(inputs);
  u32 lanes = 1;  // of an output
  while (lanes < octets && lanes < 32) lanes *= 2;
  const u32 lane = threadIdx.x % lanes, step = kLayerCtas * (kLayerThreads / lanes);
  for (u32 begin = 0; begin < outputs; begin += step) {
    const u32 output = begin + threadIdx.x / lanes * kLayerCtas + rank;
    float sum = 0.f;
    if (output < outputs)
#pragma unroll 4
      for (u32 octet = lane; octet < octets; octet += lanes) {
        const Octet w = load_octet<Element>(filter, output, 8 * octet);
#pragma unroll
        for (int k = 0; k < 8; ++k) sum = fmaf(w.of[k], input[k * octets + octet], sum);
      }
    for (u32 distance = lanes / 2; distance > 0; distance /= 2) sum += __shfl_xor_sync(~0u, sum, distance);
    if (lane == 0 && output < outputs) put(output, sum);
  }
}

// `First`, `Second`: what follows the sums of a layer, value(p, output, sum). Shared memory: an octet for each thread,
// and a float for each input of either layer, in octets.
template <class Element, class First, class Second>
UNISONO_DEVICE void small_layers(const SmallLayersParams& p) {
  UNISONO_DYNAMIC_SHARED(shared);
  Octet* const parts = reinterpret_cast<Octet*>(shared);
  float* const input = reinterpret_cast<float*>(parts + kLayerThreads);
  const u32 rank = cluster_rank(), image = blockIdx.x / kLayerCtas;
  const u32 channels = 8 * in_octets(p.channels), hidden = 8 * in_octets(p.hidden);
  float* const sums = p.sums + u64(image) * kLayerCtas * channels;
  float* const values = p.values + u64(image) * hidden;
  if (p.pixels > 1) {
    sum_pixels<Element>(p, image, rank, sums + rank * channels, parts);
    cluster_sync();
  }
  for (u32 c = threadIdx.x; c < channels; c += kLayerThreads) {
    float mean = 0.f;
    if (c < p.channels && p.pixels > 1) {
      for (u32 part = 0; part < kLayerCtas; ++part) mean += sums[part * channels + c];
      mean /= float(p.pixels);
    } else if (c < p.channels) {
      mean = widened(Element(), static_cast<const u16*>(p.from.memory)[u64(image) * p.from.pitch + c]);
    }
    input[place_of(c, channels / 8)] = mean;
  }
  __syncthreads();
  layer<Element>(p.filters[0], input, p.channels, p.hidden, rank,
                 [&](u32 output, float sum) { values[output] = First::value(p, output, sum); });
  cluster_sync();
  for (u32 c = threadIdx.x; c < hidden; c += kLayerThreads)
    input[place_of(c, hidden / 8)] = c < p.hidden ? values[c] : 0.f;
  __syncthreads();
  u16* const to = static_cast<u16*>(const_cast<void*>(p.to.memory)) + u64(image) * p.to.pitch;
  layer<Element>(p.filters[1], input, p.hidden, p.outputs, rank,
                 [&](u32 output, float sum) { to[output] = u16(Element::pack(Second::value(p, output, sum), 0.f)); });
  const u32 pad = 8 * in_octets(p.outputs) - p.outputs;
  if (rank == 0 && threadIdx.x < pad) to[p.outputs + threadIdx.x] = 0;
}

}  // namespace unisono::plain
