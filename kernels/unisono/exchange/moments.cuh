// Mean and M2 (the sum of squared deviations from the mean) of accumulators, merged by Chan's formula: no cancellation,
// whatever the offset of the values. A statistic of exchange/statistic.cuh.
#pragma once
#include "unisono/ptx/types.cuh"

namespace unisono {

struct MomentMerger;
struct MomentBatches;

struct MeanAndVariance {
  float mean, variance;
};

struct Moments {
  float count, mean, m2;

  static constexpr int kFloats = 3;
  using Merger = MomentMerger;
  using Batches = MomentBatches;
  using Result = MeanAndVariance;

  static UNISONO_DEVICE Moments identity() { return {0.f, 0.f, 0.f}; }
  UNISONO_DEVICE float packed(int i) const { return i == 0 ? mean : i == 1 ? m2 : count; }
  template <class Packed>
  static UNISONO_DEVICE Moments unpack(const Packed& at) {
    return {at(2), at(0), at(1)};
  }
  UNISONO_DEVICE void merge(const Moments& other);
  static UNISONO_DEVICE Moments over_lanes(Moments m, int lanes);
  UNISONO_DEVICE Result result() const;
};

UNISONO_DEVICE void merge(Moments& into, float count, float mean, float m2) {
  const float total = into.count + count;
  const float share = total > 0.f ? __fdividef(count, total) : 0.f;
  const float delta = mean - into.mean;
  into.mean = fmaf(delta, share, into.mean);
  into.m2 = fmaf(delta * delta, into.count * share, into.m2 + m2);
  into.count = total;
}
UNISONO_DEVICE void Moments::merge(const Moments& other) { unisono::merge(*this, other.count, other.mean, other.m2); }

// x / y to within a last place, without the branches of a division; y of ordinary size.
UNISONO_DEVICE float quotient(float x, float y) {
  const float inverse = __fdividef(1.f, y), first = x * inverse;
  return fmaf(fmaf(-first, y, x), inverse, first);
}
UNISONO_DEVICE MeanAndVariance Moments::result() const { return {mean, quotient(m2, count)}; }

// Merges many parts in order, their means relative to the first's: the running mean is then rounded at the size of the
// differences, and at the size of the values only once.
struct MomentMerger {
  float pivot = 0.f;
  Moments relative{0.f, 0.f, 0.f};
  UNISONO_DEVICE void add(float count, float mean, float m2) {
    if (relative.count == 0.f) pivot = mean;
    merge(relative, count, mean - pivot, m2);
  }
  UNISONO_DEVICE void add(const Moments& m) { add(m.count, m.mean, m.m2); }
  UNISONO_DEVICE Moments total() const { return {relative.count, relative.mean + pivot, relative.m2}; }
};

// The same for parts that arrive a batch at a time: a batch is merged at once, its mean first.
struct MomentBatches {
  Moments all{0.f, 0.f, 0.f};
  float pivot = 0.f;
  template <int kBatch, class Part>
  UNISONO_DEVICE void add(const Part& part, bool first) {
    if (first) pivot = part(0).mean;
    float rows = 0.f, sum = 0.f, m2 = 0.f;
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const Moments m = part(i);
      rows += m.count;
      sum = fmaf(m.count, m.mean - pivot, sum);
    }
    const float mean = rows > 0.f ? __fdividef(sum, rows) : 0.f;
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const Moments m = part(i);
      const float delta = m.mean - pivot - mean;
      m2 += fmaf(delta * delta, m.count, m.m2);
    }
    if (first)
      all = {rows, mean, m2};
    else
      merge(all, rows, mean, m2);
  }
  UNISONO_DEVICE Moments total() const { return {all.count, all.mean + pivot, all.m2}; }
};

UNISONO_DEVICE Moments Moments::over_lanes(Moments m, int lanes) {
  __syncwarp();
  const float pivot = __shfl_sync(~0u, m.mean, int(threadIdx.x) & 31 & ~(lanes - 1)), own = m.mean - pivot,
              rows = m.count;
  float sum = own * rows;
  for (int distance = 1; distance < lanes; distance *= 2) {
    sum += __shfl_xor_sync(~0u, sum, distance);
    m.count += __shfl_xor_sync(~0u, m.count, distance);
  }
  const float joint = m.count > 0.f ? __fdividef(sum, m.count) : 0.f, delta = own - joint;
  m.m2 = fmaf(delta * delta, rows, m.m2);
  for (int distance = 1; distance < lanes; distance *= 2) m.m2 += __shfl_xor_sync(~0u, m.m2, distance);
  m.mean = joint + pivot;
  return m;
}

}  // namespace unisono
