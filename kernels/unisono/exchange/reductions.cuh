// Reductions that are merged float by float: sums, as a normalisation's gradient needs two of, and maxima. They are
// statistics of exchange/statistic.cuh.
#pragma once
#include "unisono/exchange/statistic.cuh"

namespace unisono {

struct Sum {
  static UNISONO_DEVICE float identity() { return 0.f; }
  static UNISONO_DEVICE float join(float x, float y) { return x + y; }
};
struct Maximum {  // NaN propagates
  static UNISONO_DEVICE float identity() { return __uint_as_float(0xff800000u); }
  static UNISONO_DEVICE float join(float x, float y) { return x > y || x != x ? x : y; }
};

template <class Operation, int kCount>
struct Reductions {
  float values[kCount];

  static constexpr int kFloats = kCount;
  using Merger = PairwiseMerger<Reductions>;
  using Batches = PairwiseBatches<Reductions>;
  using Result = Reductions;

  static UNISONO_DEVICE Reductions identity() {
    Reductions nothing;
#pragma unroll
    for (int i = 0; i < kCount; ++i) nothing.values[i] = Operation::identity();
    return nothing;
  }
  UNISONO_DEVICE void merge(const Reductions& other) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) values[i] = Operation::join(values[i], other.values[i]);
  }
  UNISONO_DEVICE float packed(int i) const { return values[i]; }
  template <class Packed>
  static UNISONO_DEVICE Reductions unpack(const Packed& at) {
    Reductions read;
#pragma unroll
    for (int i = 0; i < kCount; ++i) read.values[i] = at(i);
    return read;
  }
  static UNISONO_DEVICE Reductions over_lanes(Reductions own, int lanes) { return pairwise_over_lanes(own, lanes); }
  UNISONO_DEVICE Reductions result() const { return *this; }
};

template <int kCount>
using Sums = Reductions<Sum, kCount>;
template <int kCount>
using Maxima = Reductions<Maximum, kCount>;

}  // namespace unisono
