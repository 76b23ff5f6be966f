// The sums of plain/conv.cuh.
#pragma once
#include "unisono/plain/conv_kernel.cuh"

namespace unisono {

// A thread's values of a row of a tile in shared memory: as many as four together, so that neighbouring threads read
// neighbouring vectors.
template <int kEach>
struct PlainVector {
  static constexpr int kTogether = kEach % 4 == 0 ? 4 : kEach;
  static UNISONO_DEVICE constexpr int place(int i, int thread, int threads) {
    return (i / kTogether * threads + thread) * kTogether + i % kTogether;
  }
  static UNISONO_DEVICE void load(const float* row, int thread, int threads, float (&to)[kEach]) {
#pragma unroll
    for (int i = 0; i < kEach; i += kTogether) {
      const float* const from = row + place(i, thread, threads);
      if constexpr (kTogether == 4) {
        const float4 four = *reinterpret_cast<const float4*>(from);
        to[i] = four.x, to[i + 1] = four.y, to[i + 2] = four.z, to[i + 3] = four.w;
      } else if constexpr (kTogether == 2) {
        const float2 two = *reinterpret_cast<const float2*>(from);
        to[i] = two.x, to[i + 1] = two.y;
      } else {
#pragma unroll
        for (int j = 0; j < kTogether; ++j) to[i + j] = from[j];
      }
    }
  }
};

// Element i of a thread's loads lies at [k][m] of the tile: its threads' neighbours are what lies together in memory.
template <bool kFirst, int kWidth, int kDepth, int kThreads>
struct PlainPlace {
  int k, m;
  UNISONO_DEVICE explicit PlainPlace(int i) {
    const int index = int(threadIdx.x) + i * kThreads;
    k = kFirst ? index / kWidth : index % kDepth, m = kFirst ? index % kWidth : index / kDepth;
  }
  UNISONO_DEVICE bool exists() const { return m < kWidth && k < kDepth; }
};

template <class Config, class Visitor>
UNISONO_DEVICE void PlainConv<Config, Visitor>::load_a(const Tile& tile, int step, float (&a)[kLoadsA]) const {
  const PlainConvGeometry& g = geometry();
#pragma unroll
  for (int i = 0; i < kLoadsA; ++i) {
    const PlainPlace<Config::kRowsFirst, kTileM, kTileK, kThreads> place(i);
    const int row = tile.row + place.m, k = step * kTileK + place.k;
    a[i] = 0.f;
    if (!place.exists() || row >= g.range_rows || k >= g.depth) continue;
    const Corner corner(g, Row(g, tile.range * g.range_rows + row));
    const int tap = divided(k, g.by_group_channels), channel = k - tap * g.group_channels;
    const int r = divided(tap, g.by_taps_w), s = tap - r * g.taps_w;
    if (i64 at = 0; find_pixel(corner, r, s, at))
      a[i] = load<Image>(params.fixed.image, at + (i64(tile.group) * g.group_channels + channel) * g.image_c);
  }
}

template <class Config, class Visitor>
UNISONO_DEVICE void PlainConv<Config, Visitor>::load_b(const Tile& tile, int step, const void* filter,
                                                       float (&b)[kLoadsB]) const {
  const PlainConvGeometry& g = geometry();
#pragma unroll
  for (int i = 0; i < kLoadsB; ++i) {
    const PlainPlace<Config::kColumnsFirst, kTileN, kTileK, kThreads> place(i);
    const int output = tile.output + place.m, k = step * kTileK + place.k;
    b[i] = 0.f;
    if (!place.exists() || output >= g.group_outputs || k >= g.depth) continue;
    const int tap = divided(k, g.by_group_channels), channel = k - tap * g.group_channels;
    b[i] = load<Filter>(filter, tile.range * g.filter_n + tile.group * g.filter_group + output * g.filter_output +
                                    tap * g.filter_tap + channel * g.filter_channel);
  }
}

template <class Config, class Visitor>
UNISONO_DEVICE void PlainConv<Config, Visitor>::put(const float (&a)[kLoadsA], const float (&b)[kLoadsB]) const {
#pragma unroll
  for (int i = 0; i < kLoadsA; ++i)
    if (const PlainPlace<Config::kRowsFirst, kTileM, kTileK, kThreads> place(i); place.exists())
      shared[place.k * kPitchA + place.m] = a[i];
#pragma unroll
  for (int i = 0; i < kLoadsB; ++i)
    if (const PlainPlace<Config::kColumnsFirst, kTileN, kTileK, kThreads> place(i); place.exists())
      shared[kTileK * kPitchA + place.k * kPitchB + place.m] = b[i];
}

template <class Config, class Visitor>
UNISONO_DEVICE void PlainConv<Config, Visitor>::add(float (&sum)[kEachM][kEachN]) const {
  const int down = int(threadIdx.x) / kAcross, across = int(threadIdx.x) % kAcross;
#pragma unroll
  for (int k = 0; k < kTileK; ++k) {
    float a[kEachM], b[kEachN];
    PlainVector<kEachM>::load(shared + k * kPitchA, down, kDown, a);
    PlainVector<kEachN>::load(shared + kTileK * kPitchA + k * kPitchB, across, kAcross, b);
#pragma unroll
    for (int i = 0; i < kEachM; ++i)
#pragma unroll
      for (int j = 0; j < kEachN; ++j) sum[i][j] = fmaf(a[i], b[j], sum[i][j]);
  }
}

// The sums take the operands' place.
template <class Config, class Visitor>
UNISONO_DEVICE void PlainConv<Config, Visitor>::stage(const float (&sum)[kEachM][kEachN], float* sums) const {
  const int down = int(threadIdx.x) / kAcross, across = int(threadIdx.x) % kAcross;
#pragma unroll
  for (int i = 0; i < kEachM; ++i)
#pragma unroll
    for (int j = 0; j < kEachN; ++j)
      sums[PlainVector<kEachM>::place(i, down, kDown) * kPitchSums + PlainVector<kEachN>::place(j, across, kAcross)] =
          sum[i][j];
}

template <class Config, class Visitor>
UNISONO_DEVICE void PlainConv<Config, Visitor>::sum_up(const Tile& tile, const void* filter,
                                                       float (&sum)[kEachM][kEachN]) const {
  float a[kLoadsA], b[kLoadsB];
#pragma unroll
  for (int i = 0; i < kEachM; ++i)
#pragma unroll
    for (int j = 0; j < kEachN; ++j) sum[i][j] = 0.f;
  const int steps = divide_up(geometry().depth, kTileK);
  load_a(tile, 0, a), load_b(tile, 0, filter, b);
  for (int step = 0; step < steps; ++step) {
    put(a, b);
    __syncthreads();
    if (step + 1 < steps) load_a(tile, step + 1, a), load_b(tile, step + 1, filter, b);
    add(sum);
    __syncthreads();
  }
}

template <class Config, class Visitor>
UNISONO_DEVICE void PlainConv<Config, Visitor>::multiply(const Tile& tile) const {
  float sum[kProducts][kEachM][kEachN];
#pragma unroll
  for (int i = 0; i < kProducts; ++i) sum_up(tile, filter(i), sum[i]);
#pragma unroll
  for (int i = 0; i < kProducts; ++i) stage(sum[i], shared + i * kTileM * kPitchSums);
  __syncthreads();
  finish(tile);
  __syncthreads();
}

template <class Config, class Visitor>
UNISONO_DEVICE float PlainConv<Config, Visitor>::direct_sum(const Tile& tile, const Row& at, int channel,
                                                            const void* filters) const {
  const PlainConvGeometry& g = geometry();
  const Corner corner(g, at);
  const int group = divided(channel, g.by_group_outputs);
  const i64 filter =
      tile.range * g.filter_n + group * g.filter_group + (channel - group * g.group_outputs) * g.filter_output;
  const i64 first = i64(group) * g.group_channels * g.image_c;
  float sum = 0.f;
  for (int r = 0; r < g.taps_h; ++r)
    for (int s = 0; s < g.taps_w; ++s) {
      i64 pixel = 0;
      if (!find_pixel(corner, r, s, pixel)) continue;
      const i64 tap = filter + (r * g.taps_w + s) * g.filter_tap;
      for (int c = 0; c < g.group_channels; ++c)
        sum = fmaf(load<Image>(params.fixed.image, pixel + first + c * g.image_c),
                   load<Filter>(filters, tap + c * g.filter_channel), sum);
    }
  return sum;
}

template <class Config, class Visitor>
UNISONO_DEVICE void PlainConv<Config, Visitor>::direct(const Tile& tile) const {
  const PlainConvGeometry& g = geometry();
  const PlainPlace<!Config::kPlanes, kTileN, kTileM, kThreads> place(0);  // neighbours are those of the output
  const int row = tile.row + place.k, channel = tile.output + place.m;
  if (row >= g.range_rows || channel >= g.channels) return;
  const Row at(g, tile.range * g.range_rows + row);
  Columns columns;
  const float first = direct_sum(tile, at, channel, filter(0));
  finish_sum({first, kProducts > 1 ? direct_sum(tile, at, channel, filter(1)) : 0.f}, at, channel, columns);
}

}  // namespace unisono
