// What reductions of tensors fold elements into: a state that holds all that is needed to join parts in any grouping. T
// is the number that an element is; floats are folded in double and rounded once, integers wrap.
//
//   struct State;                               of no elements: start()
//   static void add(State&, T x, u32 place);    one more element, and its place among those of the result
//   static void join(State&, const State&);
//   static Result finish(const State&, double count);
#pragma once
#include "unisono/tensor/functions.cuh"

namespace unisono::tensor {

template <bool kFloat>
struct WideOf {
  using Wide = double;
};
template <>
struct WideOf<false> {
  using Wide = u64;
};
template <class T>
using WideNumber = typename WideOf<kIsFloat<T>>::Wide;

template <class T, class Term, class Finish>
struct FoldSum {
  using State = WideNumber<T>;
  static UNISONO_DEVICE State start() { return 0; }
  static UNISONO_DEVICE void add(State& s, T x, u32) { s += Term::of(State(x)); }
  static UNISONO_DEVICE void join(State& s, const State& other) { s += other; }
  static UNISONO_DEVICE T finish(const State& s, double count) { return T(Finish::of(s, count)); }
};
struct Itself {
  template <class W, class... Count>
  static UNISONO_DEVICE W of(W x, Count...) {
    return x;
  }
};
struct Squared {
  template <class W>
  static UNISONO_DEVICE W of(W x) {
    return x * x;
  }
};
struct Absolute {
  static UNISONO_DEVICE double of(double x) { return fabs(x); }
};
struct Average {
  static UNISONO_DEVICE double of(double sum, double count) { return sum / count; }
};
struct Root {
  static UNISONO_DEVICE double of(double sum, double) { return ::sqrt(sum); }
};
struct Logarithm {
  static UNISONO_DEVICE double of(double sum, double) { return ::log(sum); }
};

template <class T>
struct FoldProduct {
  using State = WideNumber<T>;
  static UNISONO_DEVICE State start() { return 1; }
  static UNISONO_DEVICE void add(State& s, T x, u32) { s *= State(x); }
  static UNISONO_DEVICE void join(State& s, const State& other) { s *= other; }
  static UNISONO_DEVICE T finish(const State& s, double) { return T(s); }
};

// Beyond all numbers of the type, or the last of them.
template <class T, bool kLow>
UNISONO_DEVICE T extreme() {
  if constexpr (kIsFloat<T>)
    return T(kLow ? -__int_as_float(0x7f800000) : __int_as_float(0x7f800000));
  else
    return kLow ? kLowest<T> : kLargest<T>;
}

// A NaN wins.
template <class T, bool kSmallest>
struct FoldExtreme {
  using State = T;
  static UNISONO_DEVICE State start() { return extreme<T, !kSmallest>(); }
  static UNISONO_DEVICE void add(State& s, T x, u32) {
    if (x != x || (s == s && (kSmallest ? x < s : x > s))) s = x;
  }
  static UNISONO_DEVICE void join(State& s, const State& other) { add(s, other, 0); }
  static UNISONO_DEVICE T finish(const State& s, double) { return s; }
};

// log(sum of exp(x)) = top + log(sum), where `sum` is that of exp(x - top).
struct LogSumState {
  double top, sum;
};
template <class T>
struct FoldLogSumExp {
  using State = LogSumState;
  static UNISONO_DEVICE State start() { return {extreme<double, true>(), 0.0}; }
  static UNISONO_DEVICE void add(State& s, T x, u32) { join(s, {double(x), 1.0}); }
  static UNISONO_DEVICE void join(State& s, const State& other) {
    if (other.top != other.top || s.top != s.top) {
      s.top += other.top;  // NaN
    } else if (other.top > s.top) {
      s = {other.top, s.sum * ::exp(s.top - other.top) + other.sum};
    } else if (other.top > extreme<double, true>()) {
      s.sum += other.sum * ::exp(other.top - s.top);
    }
  }
  static UNISONO_DEVICE T finish(const State& s, double) {
    const bool finite = s.top - s.top == 0;
    return T(finite ? ::log(s.sum) + s.top : s.top);
  }
};

// The place of the most extreme element; a NaN is more extreme than any number. Of equal ones the first, or the last.
template <class T>
struct PlacedNumber {
  T number;
  u32 place;  // kNoPlace: of no element
};
constexpr u32 kNoPlace = ~0u;
template <class T, bool kSmallest, bool kLast>
struct FoldPlace {
  using State = PlacedNumber<T>;
  static UNISONO_DEVICE State start() { return {T(0), kNoPlace}; }
  static UNISONO_DEVICE void add(State& s, T x, u32 place) { join(s, {x, place}); }
  static UNISONO_DEVICE void join(State& s, const State& other) {
    if (other.place == kNoPlace) return;
    const T a = s.number, b = other.number;
    const bool better = a == a && (b != b || (kSmallest ? b < a : b > a));
    const bool same = a == b || (a != a && b != b);
    if (s.place == kNoPlace || better || (same && (other.place > s.place) == kLast)) s = other;
  }
  static UNISONO_DEVICE i64 finish(const State& s, double) { return s.place; }
};

}  // namespace unisono::tensor
