// A normalisation after a contraction, on any architecture: the values before it are written to the workspace in
// f32, the launch's CTAs meet, each computes mean and variance of some results (the mean first, then the squares
// around it, each sum in a fixed order), they meet again, and the elements are read back and normalised. All CTAs are
// resident at once: the launch is cooperative.
#pragma once
#include "unisono/plain/conv_epilogue.cuh"

namespace unisono {

template <class Config, class Visitor>
UNISONO_DEVICE void PlainConv<Config, Visitor>::normalise() const {
  meet();
  make_statistics();
  meet();
  normalise_elements();
}

// Waits for all CTAs; what any wrote before is visible to all after it. The count goes back to zero by itself, and
// only the change of the phase counts, so a workspace needs no care between launches.
template <class Config, class Visitor>
UNISONO_DEVICE void PlainConv<Config, Visitor>::meet() const {
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    const u32 phase = load_acquire(norm().phase);
    delay_point();
    if (increment_wrapping(norm().arrived, gridDim.x - 1) == gridDim.x - 1) {
      store_release(norm().phase, phase + 1);
    } else {
      Watchdog watchdog;
      while (load_acquire(norm().phase) == phase) {
        __nanosleep(100);
        watchdog.tick();
      }
    }
    __threadfence();
  }
  __syncthreads();
}

// The same in every thread, in a fixed order.
template <class Config, class Visitor>
UNISONO_DEVICE float PlainConv<Config, Visitor>::sum_of_cta(float x) const {
  shared[threadIdx.x] = x;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (int(threadIdx.x) < half) shared[threadIdx.x] += shared[threadIdx.x + half];
    __syncthreads();
  }
  x = shared[0];
  __syncthreads();
  return x;
}

// Which rows and channels of a domain a thread has: neighbours have neighbouring channels.
template <int kThreads>
struct PlainShare {
  int lanes, down, row, channel;
  UNISONO_DEVICE explicit PlainShare(int channels) : lanes(smaller(channels, kThreads)), down(kThreads / lanes) {
    row = int(threadIdx.x) / lanes, channel = int(threadIdx.x) - row * lanes;
  }
  UNISONO_DEVICE bool idles() const { return row >= down; }
};

template <class Config, class Visitor>
template <class Value>
UNISONO_DEVICE float PlainConv<Config, Visitor>::sum_over(int row, int rows, int channel, int channels,
                                                          const Value& value) const {
  const PlainShare<kThreads> share(channels);
  float sum = 0.f;
  if (!share.idles())
    for (i64 m = share.row; m < rows; m += share.down)
      for (int n = share.channel; n < channels; n += share.lanes)
        sum += value(load_l2(norm().values + (row + m) * u64(geometry().channels) + channel + n));
  return sum_of_cta(sum);
}

template <class Config, class Visitor>
UNISONO_DEVICE void PlainConv<Config, Visitor>::make_statistics() const {
  const PlainConvGeometry& g = geometry();
  const PlainNormParams& p = norm();
  const int all_rows = g.images * g.rows,
            rows = Config::kPerPixel ? 1
                   : p.spans_images  ? all_rows
                                     : g.rows,
            results = all_rows / rows * p.groups;
  for (int result = int(blockIdx.x); result < results; result += int(gridDim.x)) {
    const int part = result / p.groups, group = result - part * p.groups, channel = group * p.group_channels;
    const float count = float(rows) * float(p.group_channels);
    // around the first element: sums of values that are large compared with their deviation would lose it
    const float pivot = load_l2(norm().values + u64(part) * u64(rows) * u64(geometry().channels) + channel);
    const float mean =
        pivot + sum_over(part * rows, rows, channel, p.group_channels, [pivot](float x) { return x - pivot; }) / count;
    const float variance =
        sum_over(part * rows, rows, channel, p.group_channels, [mean](float x) { return (x - mean) * (x - mean); }) /
        count;
    if (threadIdx.x != 0) continue;
    p.statistics[2 * u64(result)] = mean, p.statistics[2 * u64(result) + 1] = variance;
    if constexpr (Visitor::kStatistics) Visitor::statistics(params.visitor, uniform, part, group, mean, variance);
  }
}

template <class Config, class Visitor>
UNISONO_DEVICE void PlainConv<Config, Visitor>::normalise_elements() const {
  const PlainConvGeometry& g = geometry();
  const PlainNormParams& p = norm();
  const PlainShare<kThreads> share(g.channels);
  if (share.idles()) return;
  Columns columns;
  for (i64 m = i64(blockIdx.x) * share.down + share.row; m < i64(g.images) * g.rows; m += i64(gridDim.x) * share.down)
    for (int channel = share.channel; channel < g.channels; channel += share.lanes) {
      const Row at(g, int(m));
      columns.move(*this, at, channel);
      const int part = Config::kPerPixel ? at.m : p.spans_images ? 0 : at.image;
      const float* const found = p.statistics + 2 * (u64(part) * p.groups + divided(channel, p.by_group_channels));
      const float2 affine = Visitor::affine(Visitor::late(params.visitor, uniform, at.image, channel), uniform,
                                            load_l2(found), load_l2(found + 1));
      const float x = load_l2(p.values + u64(m) * g.channels + channel);
      const float centred = (x - load_l2(found)) * affine.x + affine.y;
      finish_plain({centred, 0.f}, at, channel, Visitor::kRaw ? x : 0.f, columns);
    }
}

}  // namespace unisono
