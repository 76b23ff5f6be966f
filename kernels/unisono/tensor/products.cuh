// Matrix products of any type, one sum a thread.
#pragma once
#include "unisono/ptx/grid.cuh"
#include "unisono/tensor/number.cuh"
#include "unisono/tensor/space.cuh"

namespace unisono::tensor {

// What products of numbers are added up in: integers wrap.
template <class T>
struct SumOf {
  using Sum = u64;
  static UNISONO_DEVICE u64 added(T x, T y, u64 sum) { return sum + u64(x) * u64(y); }
};
template <>
struct SumOf<float> {
  using Sum = float;
  static UNISONO_DEVICE float added(float x, float y, float sum) { return fmaf(x, y, sum); }
};
template <>
struct SumOf<double> {
  using Sum = double;
  static UNISONO_DEVICE double added(double x, double y, double sum) { return fma(x, y, sum); }
};

// Products are first added up in runs of that many: the error of a long sum grows with the number of runs.
constexpr u32 kRun = 64;

template <class A, class B, class To>
UNISONO_DEVICE void product_of_matrices(const ProductParams& p) {
  using Number = NumberOf<To>;
  using Sum = typename SumOf<Number>::Sum;
  for (u64 i = first_index(); i < p.space.count; i += index_step()) {
    const auto at = offsets_of(p.space, u32(i), p.a.strides, p.b.strides, p.to.strides);
    Sum sum = 0;
    for (u32 first = 0; first < p.depth; first += kRun) {
      Sum run = 0;
      for (u32 k = first; k < p.depth && k < first + kRun; ++k)
        run = SumOf<Number>::added(load<A>(p.a.memory, at.of[0] + k * p.a_step),
                                   load<B>(p.b.memory, at.of[1] + k * p.b_step), run);
      sum += run;
    }
    store<To>(p.to.memory, at.of[2], Number(sum));
  }
}

}  // namespace unisono::tensor
