// Reductions that are merged float by float: sums, maxima, or of each float its own. They are statistics of
// exchange/statistic.cuh. Which of them an epilogue exchanges: epilogue/exchanged.cuh.
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

// List: kCount floats, float i from identity(i) on by join(i, x, y).
template <class List>
struct Reductions {
  static constexpr int kFloats = List::kCount;
  using Merger = PairwiseMerger<Reductions>;
  using Batches = PairwiseBatches<Reductions>;
  using Result = Reductions;

  float values[kFloats];

  static UNISONO_DEVICE Reductions identity() {
    Reductions nothing;
#pragma unroll
    for (int i = 0; i < kFloats; ++i) nothing.values[i] = List::identity(i);
    return nothing;
  }
  UNISONO_DEVICE void merge(const Reductions& other) {
#pragma unroll
    for (int i = 0; i < kFloats; ++i) values[i] = List::join(i, values[i], other.values[i]);
  }
  UNISONO_DEVICE float packed(int i) const { return values[i]; }
  template <class Packed>
  static UNISONO_DEVICE Reductions unpack(const Packed& at) {
    Reductions read;
#pragma unroll
    for (int i = 0; i < kFloats; ++i) read.values[i] = at(i);
    return read;
  }
  static UNISONO_DEVICE Reductions over_lanes(Reductions own, int lanes) { return pairwise_over_lanes(own, lanes); }
  UNISONO_DEVICE Reductions result() const { return *this; }
};

template <class Operation, int kFloats>
struct Alike {
  static constexpr int kCount = kFloats;
  static UNISONO_DEVICE float identity(int) { return Operation::identity(); }
  static UNISONO_DEVICE float join(int, float x, float y) { return Operation::join(x, y); }
};
template <int kCount>
using Sums = Reductions<Alike<Sum, kCount>>;
template <int kCount>
using Maxima = Reductions<Alike<Maximum, kCount>>;

}  // namespace unisono
