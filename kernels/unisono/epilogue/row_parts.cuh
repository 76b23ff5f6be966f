// The statistics of a row (epilogue/row_statistics.cuh): which there are, and how what tiles have of a row is merged.
#pragma once
#include "unisono/exchange/moments.cuh"
#include "unisono/exchange/row_exchange.cuh"
#include "unisono/ptx/arithmetic.cuh"

namespace unisono {

struct RowAffine {
  float mean, factor, shift;
};

// What a visitor says of it, if it is not kMoments: kRowStatistic, and for kSoftmax `static float exponential(float)`.
enum class RowStatistic {
  kMoments,  // mean and variance
  kSquares,  // 0 and the mean of x²
  kSoftmax   // elements become exp(x - m), m their tile's maximum, which a row's factor makes exp(x - max) / sum; the
             // visitor's `affine` gets the maximum and the sum
};
template <class Visitor, class = void>
struct RowStatisticOf {
  static constexpr RowStatistic kValue = RowStatistic::kMoments;
};
template <class Visitor>
struct RowStatisticOf<Visitor, typename Said<Visitor::kRowStatistic>::Type> {
  static constexpr RowStatistic kValue = Visitor::kRowStatistic;
};

// What a tile has of a row, or all tiles. kMoments: of `count` channels; kSquares: sum; kSoftmax: the maximum, and the
// sum of exponentials from there.
template <RowStatistic kKind>
struct RowPart;

template <>
struct RowPart<RowStatistic::kMoments> {
  static constexpr int kAtOnce = 2;
  MomentMerger merger;
  UNISONO_DEVICE void add(float count, float mean, float m2) { merger.add(count, mean, m2); }
  template <int kLanes>
  UNISONO_DEVICE RowTriple over() const {
    const Moments all = Moments::over_lanes(merger.total(), kLanes);
    return {all.count, all.mean, all.m2};
  }
};
template <>
struct RowPart<RowStatistic::kSquares> {
  static constexpr int kAtOnce = 2;
  float sum = 0.f;
  UNISONO_DEVICE void add(float of_tile, float, float) { sum += of_tile; }
  template <int kLanes>
  UNISONO_DEVICE RowTriple over() const {
    return {sum_over<kLanes>(sum), 0.f, 0.f};
  }
};
// exp(x - maximum), 1 where they are equal, infinities too.
template <class Visitor>
UNISONO_DEVICE float exponential_from(float x, float maximum) {
  return x == maximum ? 1.f : Visitor::exponential(x - maximum);
}
UNISONO_DEVICE float below_all() { return __uint_as_float(0xff800000u); }  // -inf
template <class Visitor>
struct ExponentialPart {
  static constexpr int kAtOnce = 2;
  float maximum, sum;
  UNISONO_DEVICE ExponentialPart() : maximum(below_all()), sum(0.f) {}
  UNISONO_DEVICE void add(float of_tile, float exponentials, float) {
    const float larger = max_nan(maximum, of_tile);
    sum = fmaf(exponentials, exponential_from<Visitor>(of_tile, larger),
               sum * exponential_from<Visitor>(maximum, larger));
    maximum = larger;
  }
  template <int kLanes>
  UNISONO_DEVICE RowTriple over() const {
    float all = maximum;
#pragma unroll
    for (int bit = 1; bit < kLanes; bit *= 2) all = max_nan(all, __shfl_xor_sync(~0u, all, bit));
    return {all, sum_over<kLanes>(sum * exponential_from<Visitor>(maximum, all)), 0.f};
  }
};

}  // namespace unisono
