// All instructions of one unit. CODA_UNIT (the namespace) and CODA_UNIT_NAME come from the build, which compiles this
// file once per instruction set.

#include <utility>

#include "functions.hpp"
#include "unit.hpp"

namespace CODA_UNIT {

namespace {

using coda::cpu::AccumulateArgs;
using coda::cpu::Code;
using coda::cpu::Collect;
using coda::cpu::LaneArgs;
using coda::cpu::RowArgs;
using coda::cpu::RowResult;
using coda::cpu::VectorUnit;

// Calls body(first lane, count of lanes), whole vectors first
template <class V, class Body>
inline void for_vectors(size_t lanes, Body body) {
  size_t i = 0;
  for (; i + lanes_of<V> <= lanes; i += lanes_of<V>) body(i, lanes_of<V>);
  if (i < lanes) body(i, lanes - i);
}
template <class V>
inline V load_upto(const LaneOf<V>* p, size_t n) {
  return n == lanes_of<V> ? load<V>(p) : load_part<V>(p, n);
}
template <class V>
inline void store_upto(LaneOf<V>* p, V v, size_t n) {
  if (n == lanes_of<V>) return store<V>(p, v);
  store_part<V>(p, v, n);
}

// result = f(sources…)
template <class V, auto f, size_t... k>
inline void lanewise_of(const LaneArgs& a) {
  using T = LaneOf<V>;
  T* result = static_cast<T*>(a.result);
  for_vectors<V>(a.lanes, [&](size_t i, size_t n) {
    const ptrdiff_t at = static_cast<ptrdiff_t>(i);
    // a scalar is a whole vector in memory
    store_upto<V>(result + i,
                  f((n == lanes_of<V> || a.step[k] == 0 ? load<V>(static_cast<const T*>(a.source[k]) + at * a.step[k])
                                                        : load_part<V>(static_cast<const T*>(a.source[k]) + i, n))...),
                  n);
  });
}
template <class V, auto f>
void lanewise1(const LaneArgs& a) {
  lanewise_of<V, f, 0>(a);
}
template <class V, auto f>
void lanewise2(const LaneArgs& a) {
  lanewise_of<V, f, 0, 1>(a);
}
template <class V, auto f>
void lanewise3(const LaneArgs& a) {
  lanewise_of<V, f, 0, 1, 2>(a);
}
template <class V, auto f>
void lanewise4(const LaneArgs& a) {
  lanewise_of<V, f, 0, 1, 2, 3>(a);
}

// result = f((source 0 [+ source 4] - source 1)·source 2 + source 3)
template <auto f>
void normalise(const LaneArgs& a) {
  if (a.source[4])
    lanewise_of<F, [](F x, F y, F z, F w, F e) { return f(multiply_add(x + e - y, z, w)); }, 0, 1, 2, 3, 4>(a);
  else
    lanewise_of<F, [](F x, F y, F z, F w) { return f(multiply_add(x - y, z, w)); }, 0, 1, 2, 3>(a);
}

// result = f(source, immediate 0, immediate 1)
template <class V, auto f>
void immediate(const LaneArgs& a) {
  using T = LaneOf<V>;
  const V first = splat<V>(a.immediate[0]), second = splat<V>(a.immediate[1]);
  const T* source = static_cast<const T*>(a.source[0]);
  T* result = static_cast<T*>(a.result);
  for_vectors<V>(a.lanes, [&](size_t i, size_t n) {
    const V x = a.step[0] == 0 ? load<V>(source) : load_upto<V>(source + i, n);
    store_upto<V>(result + i, f(x, first, second), n);
  });
}

template <class V, class Mask>
inline V truth(Mask m) {
  return m ? splat<V>(1.0) : V{};
}

using LaneFunction = void (*)(const LaneArgs&);

template <class V>
constexpr void set_arithmetic(LaneFunction* t) {
  const auto set = [t](Code c, LaneFunction f) { t[static_cast<int>(c)] = f; };
  set(Code::copy, lanewise1<V, [](V x) { return x; }>);
  set(Code::add, lanewise2<V, [](V x, V y) { return x + y; }>);
  set(Code::sub, lanewise2<V, [](V x, V y) { return x - y; }>);
  set(Code::mul, lanewise2<V, [](V x, V y) { return x * y; }>);
  set(Code::div, lanewise2<V, [](V x, V y) { return x / y; }>);
  set(Code::min, lanewise2<V, [](V x, V y) { return smaller(x, y); }>);
  set(Code::max, lanewise2<V, [](V x, V y) { return larger(x, y); }>);
  set(Code::pow, lanewise2<V, [](V x, V y) { return power(x, y); }>);
  set(Code::fma, lanewise3<V, [](V x, V y, V z) { return multiply_add(x, y, z); }>);
  set(Code::select, lanewise3<V, [](V c, V x, V y) { return c != 0 ? x : y; }>);
}

template <class V>
constexpr void set_logic(LaneFunction* t) {
  const auto set = [t](Code c, LaneFunction f) { t[static_cast<int>(c)] = f; };
  set(Code::less, lanewise2<V, [](V x, V y) { return truth<V>(x < y); }>);
  set(Code::less_equal, lanewise2<V, [](V x, V y) { return truth<V>(x <= y); }>);
  set(Code::greater, lanewise2<V, [](V x, V y) { return truth<V>(x > y); }>);
  set(Code::greater_equal, lanewise2<V, [](V x, V y) { return truth<V>(x >= y); }>);
  set(Code::equal, lanewise2<V, [](V x, V y) { return truth<V>(x == y); }>);
  set(Code::not_equal, lanewise2<V, [](V x, V y) { return truth<V>(x != y); }>);
  set(Code::logical_and, lanewise2<V, [](V x, V y) { return x * y; }>);
  set(Code::logical_or, lanewise2<V, [](V x, V y) { return larger(x, y); }>);
  set(Code::logical_not, lanewise1<V, [](V x) { return 1 - x; }>);
  set(Code::round_bool, lanewise1<V, [](V x) { return truth<V>(x != 0); }>);
}

template <class V>
constexpr void set_functions(LaneFunction* t) {
  const auto set = [t](Code c, LaneFunction f) { t[static_cast<int>(c)] = f; };
  set(Code::neg, lanewise1<V, [](V x) { return -x; }>);
  set(Code::abs, lanewise1<V, [](V x) { return magnitude(x); }>);
  set(Code::sqrt, lanewise1<V, [](V x) { return square_root(x); }>);
  set(Code::rsqrt, lanewise1<V, [](V x) { return 1 / square_root(x); }>);
  set(Code::reciprocal, lanewise1<V, [](V x) { return 1 / x; }>);
  set(Code::square, lanewise1<V, [](V x) { return x * x; }>);
  set(Code::exp, lanewise1<V, [](V x) { return exponential(x); }>);
  set(Code::log, lanewise1<V, [](V x) { return logarithm(x); }>);
  set(Code::log1p, lanewise1<V, [](V x) { return logarithm1p(x); }>);
  set(Code::tanh, lanewise1<V, [](V x) { return tangent_h(x); }>);
  set(Code::erf, lanewise1<V, [](V x) { return error_function(x); }>);
  set(Code::sin, lanewise1<V, [](V x) { return sine(x); }>);
  set(Code::cos, lanewise1<V, [](V x) { return cosine(x); }>);
}

template <class V>
constexpr void set_activations(LaneFunction* t) {
  const auto set = [t](Code c, LaneFunction f) { t[static_cast<int>(c)] = f; };
  set(Code::sigmoid, lanewise1<V, [](V x) { return logistic(x); }>);
  set(Code::relu, lanewise1<V, [](V x) { return larger(x, V{}); }>);
  set(Code::relu6, lanewise1<V, [](V x) { return clamped(x, V{}, splat<V>(6.0)); }>);
  set(Code::leaky_relu, immediate<V, [](V x, V slope, V) { return leaky(x, slope); }>);
  set(Code::elu, immediate<V, [](V x, V alpha, V) { return elu_of(x, alpha); }>);
  set(Code::silu, lanewise1<V, [](V x) { return silu_of(x); }>);
  set(Code::mish, lanewise1<V, [](V x) { return mish_of(x); }>);
  set(Code::gelu, lanewise1<V, [](V x) { return gelu_of(x); }>);
  set(Code::gelu_tanh, lanewise1<V, [](V x) { return gelu_tanh_of(x); }>);
  set(Code::hardsigmoid,
      immediate<V, [](V x, V alpha, V beta) { return clamped(alpha * x + beta, V{}, splat<V>(1.0)); }>);
  set(Code::hardswish, lanewise1<V, [](V x) { return hardswish_of(x); }>);
  set(Code::softplus, lanewise1<V, [](V x) { return soft_plus(x); }>);
  set(Code::logsigmoid, lanewise1<V, [](V x) { return -soft_plus(-x); }>);
  set(Code::clamp, immediate<V, [](V x, V lower, V upper) { return clamped(x, lower, upper); }>);
}

constexpr void set_normalise(LaneFunction* t) {
  const auto set = [t](Code c, LaneFunction f) { t[static_cast<int>(c)] = f; };
  set(Code::copy, normalise<[](F x) { return x; }>);
  set(Code::relu, normalise<[](F x) { return larger(x, F{}); }>);
  set(Code::sigmoid, normalise<[](F x) { return logistic(x); }>);
  set(Code::silu, normalise<[](F x) { return silu_of(x); }>);
  set(Code::mish, normalise<[](F x) { return mish_of(x); }>);
  set(Code::gelu, normalise<[](F x) { return gelu_of(x); }>);
  set(Code::gelu_tanh, normalise<[](F x) { return gelu_tanh_of(x); }>);
  set(Code::hardswish, normalise<[](F x) { return hardswish_of(x); }>);
}

void widen(const LaneArgs& a) {
  const float* source = static_cast<const float*>(a.source[0]);
  double* result = static_cast<double*>(a.result);
  size_t i = 0;
  for (; i + lanes_of<D> <= a.lanes; i += lanes_of<D>) {
    Fhalf x;
    __builtin_memcpy(&x, source + i, sizeof x);
    store<D>(result + i, __builtin_convertvector(x, D));
  }
  for (; i < a.lanes; ++i) result[i] = static_cast<double>(source[i]);
}

void narrow(const LaneArgs& a) {
  const double* source = static_cast<const double*>(a.source[0]);
  float* result = static_cast<float*>(a.result);
  size_t i = 0;
  for (; i + lanes_of<D> <= a.lanes; i += lanes_of<D>) {
    const Fhalf x = __builtin_convertvector(load<D>(source + i), Fhalf);
    __builtin_memcpy(result + i, &x, sizeof x);
  }
  for (; i < a.lanes; ++i) result[i] = static_cast<float>(source[i]);
}

// ---- Reductions over the rows of a block ----

// Σ term(x) of lane `at`
template <auto term>
inline F column_sum(const AccumulateArgs& a, size_t at, size_t n, F shift) {
  F even = {}, odd = {};  // two chains, so that one addition need not wait for the one before
  size_t j = 0;
  for (; j + 2 <= a.repeats; j += 2) {
    even += term(load_upto<F>(a.block + j * a.period + at, n) - shift);
    odd += term(load_upto<F>(a.block + (j + 1) * a.period + at, n) - shift);
  }
  if (j < a.repeats) even += term(load_upto<F>(a.block + j * a.period + at, n) - shift);
  return even + odd;
}

constexpr auto itself = [](F x) { return x; };
constexpr auto squared = [](F x) { return x * x; };

template <auto term>
void accumulate_sum(const AccumulateArgs& a) {
  for_vectors<F>(a.lanes, [&](size_t i, size_t n) {
    const F before = a.collected == 0 ? F{} : load_upto<F>(a.first + i, n);
    store_upto<F>(a.first + i, before + column_sum<term>(a, i, n, F{}), n);
  });
}

void accumulate_moments(const AccumulateArgs& a) {
  const float old = static_cast<float>(a.collected), fresh = static_cast<float>(a.repeats);
  const float weight = fresh / (old + fresh), inverse = 1 / fresh;
  for_vectors<F>(a.lanes, [&](size_t i, size_t n) {
    F mean = a.repeats == 1 ? load_upto<F>(a.block + i, n) : column_sum<itself>(a, i, n, F{}) * inverse;
    F squares = a.repeats == 1 ? F{} : column_sum<squared>(a, i, n, mean);
    if (a.collected > 0) {
      const F before = load_upto<F>(a.first + i, n), delta = mean - before;
      mean = multiply_add(delta, splat<F>(weight), before);
      squares = load_upto<F>(a.second + i, n) + squares + delta * delta * (old * weight);
    }
    store_upto<F>(a.first + i, mean, n);
    store_upto<F>(a.second + i, squares, n);
  });
}

template <auto choose>
void accumulate_extreme(const AccumulateArgs& a) {
  for_vectors<F>(a.lanes, [&](size_t i, size_t n) {
    F best = load_upto<F>(a.collected == 0 ? a.block + i : a.first + i, n);
    for (size_t j = 0; j < a.repeats; ++j) best = choose(best, load_upto<F>(a.block + j * a.period + i, n));
    store_upto<F>(a.first + i, best, n);
  });
}

// ---- Reductions of rows ----

template <auto term>
inline float row_sum(const float* x, size_t width, float shift) {
  F sum = {};
  size_t i = 0;
  for (; i + lanes_of<F> <= width; i += lanes_of<F>) sum += term(load<F>(x + i) - shift);
  float total = 0;
  if (i > 0)
    for (size_t k = 0; k < lanes_of<F>; ++k) total += sum[k];
  for (; i < width; ++i) total += term(splat<F>(static_cast<double>(x[i] - shift)))[0];
  return total;
}

template <auto choose>
inline float row_extreme(const float* x, size_t width) {
  size_t i = 0;
  float best = x[0];
  if (width >= lanes_of<F>) {
    F v = load<F>(x);
    for (i = lanes_of<F>; i + lanes_of<F> <= width; i += lanes_of<F>) v = choose(v, load<F>(x + i));
    best = v[0];
    for (size_t k = 1; k < lanes_of<F>; ++k) best = choose(splat<F>(v[k]), splat<F>(best))[0];
  }
  for (; i < width; ++i) best = choose(splat<F>(x[i]), splat<F>(best))[0];
  return best;
}

template <class Row>
inline void for_rows(const RowArgs& a, Row row) {
  for (size_t r = 0; r < a.rows; ++r) a.result[r] = row(a.source + r * a.width);
}

constexpr auto the_larger = [](F x, F y) { return larger(x, y); };
constexpr auto the_smaller = [](F x, F y) { return smaller(x, y); };

void rows_sum(const RowArgs& a) {
  for_rows(a, [&](const float* x) { return row_sum<itself>(x, a.width, 0); });
}
void rows_mean(const RowArgs& a) {
  for_rows(a, [&](const float* x) { return row_sum<itself>(x, a.width, 0) / static_cast<float>(a.width); });
}
void rows_sum_squares(const RowArgs& a) {
  for_rows(a, [&](const float* x) { return row_sum<squared>(x, a.width, 0); });
}
void rows_variance(const RowArgs& a) {
  const float width = static_cast<float>(a.width);
  for_rows(
      a, [&](const float* x) { return row_sum<squared>(x, a.width, row_sum<itself>(x, a.width, 0) / width) / width; });
}
void rows_largest(const RowArgs& a) {
  for_rows(a, [&](const float* x) { return row_extreme<the_larger>(x, a.width); });
}
void rows_smallest(const RowArgs& a) {
  for_rows(a, [&](const float* x) { return row_extreme<the_smaller>(x, a.width); });
}

// ---- Short floats in memory ----

using Short = uint16_t __attribute__((vector_size(CODA_VECTOR_BYTES / 2)));  // as many lanes as F

template <auto decode>
void load_short(const uint16_t* from, float* to, size_t lanes) {
  for_vectors<F>(lanes, [&](size_t i, size_t n) {
    Short s = {};
    if (n == lanes_of<F>) {
      __builtin_memcpy(&s, from + i, sizeof s);
    } else {
      for (size_t k = 0; k < n; ++k) s[k] = from[i + k];
    }
    store_upto<F>(to + i, decode(__builtin_convertvector(s, U)), n);
  });
}

template <auto encode>
void store_short(const float* from, uint16_t* to, size_t lanes) {
  for_vectors<F>(lanes, [&](size_t i, size_t n) {
    const Short s = __builtin_convertvector(encode(load_upto<F>(from + i, n)), Short);
    if (n == lanes_of<F>) {
      __builtin_memcpy(to + i, &s, sizeof s);
    } else {
      for (size_t k = 0; k < n; ++k) to[i + k] = s[k];
    }
  });
}

constexpr auto decode_bf16 = [](U s) { return reinterpret_cast<F>(s << 16); };
constexpr auto encode_bf16 = [](F x) {
  const U i = reinterpret_cast<U>(rounded_bf16(x)) >> 16;
  return x != x ? i | 0x40u : i;
};
// 2^112·(the bits shifted into place) is right for normal and subnormal numbers alike
constexpr auto decode_f16 = [](U s) {
  const U m = s & 0x7fffu;
  const U finite = reinterpret_cast<U>(reinterpret_cast<F>(m << 13) * 0x1p112f);
  const U special = (m << 13) | 0x7f800000u;
  return reinterpret_cast<F>((m >= 0x7c00u ? special : finite) | (s & 0x8000u) << 16);
};
constexpr auto encode_f16 = [](F x) {
  const F y = magnitude(rounded_f16(x));
  const U i = reinterpret_cast<U>(y);
  const U normal = (i >> 13) - (112u << 10);
  const U subnormal = reinterpret_cast<U>(__builtin_convertvector(y < 0x1p-14f ? y * 0x1p24f : F{}, I));
  U m = y < 0x1p-14f ? subnormal : normal;
  m = i == 0x7f800000u ? U{} + 0x7c00u : m;
  m = x != x ? U{} + 0x7e00u : m;
  return m | (reinterpret_cast<U>(x) >> 16 & 0x8000u);
};

void copy_rows(const float* from, ptrdiff_t from_pitch, float* to, ptrdiff_t to_pitch, size_t rows, size_t cols) {
  for (size_t i = 0; i < rows; ++i, from += from_pitch, to += to_pitch)
    for_vectors<F>(cols, [&](size_t j, size_t n) { store_upto<F>(to + j, load_upto<F>(from + j, n), n); });
}

// a[0] b[0] a[1] b[1] … of the lower or the upper halves
template <bool upper, size_t... i>
inline F interleave(F a, F b, std::index_sequence<i...>) {
  constexpr size_t n = sizeof...(i), first = upper ? n / 2 : 0;
  return __builtin_shufflevector(a, b, static_cast<int>(first + i / 2 + (i % 2 ? n : 0))...);
}

// A square of as many rows as a vector has lanes, into registers. Interleaving row i with row i + lanes / 2 moves the
// top bit of the column's number to the bottom of the row's and the row's top bit to the bottom of the column's; so
// often repeated as these numbers have bits, it exchanges them.
struct Square {
  F rows[lanes_of<F>];
};
inline Square transposed_square(const float* from, ptrdiff_t from_pitch) {
  constexpr size_t n = lanes_of<F>;
  constexpr auto lanes = std::make_index_sequence<n>();
  Square s;
  F next[n];
#pragma GCC unroll 16
  for (size_t i = 0; i < n; ++i) s.rows[i] = load<F>(from + static_cast<ptrdiff_t>(i) * from_pitch);
#pragma GCC unroll 4
  for (size_t bit = 1; bit < n; bit *= 2) {
#pragma GCC unroll 16
    for (size_t i = 0; i < n / 2; ++i) {
      next[2 * i] = interleave<false>(s.rows[i], s.rows[i + n / 2], lanes);
      next[2 * i + 1] = interleave<true>(s.rows[i], s.rows[i + n / 2], lanes);
    }
#pragma GCC unroll 16
    for (size_t i = 0; i < n; ++i) s.rows[i] = next[i];
  }
  return s;
}

// Each cache line is touched once on either side: lines that lie a power of two apart compete for the same places.
template <bool stream>
inline void transpose_square(const float* from, ptrdiff_t from_pitch, float* to, ptrdiff_t to_pitch) {
  const Square s = transposed_square(from, from_pitch);
#pragma GCC unroll 16
  for (size_t j = 0; j < lanes_of<F>; ++j) {
    float* const row = to + static_cast<ptrdiff_t>(j) * to_pitch;
    if constexpr (stream)
      store_past_caches(row, s.rows[j]);
    else
      store<F>(row, s.rows[j]);
  }
}

// Stores the lanes [first, last) of each row of the result
void transpose_square_part(const float* from, ptrdiff_t from_pitch, float* to, ptrdiff_t to_pitch, size_t first,
                           size_t last) {
  const Square s = transposed_square(from, from_pitch);
  for (size_t j = 0; j < lanes_of<F>; ++j)
    store_lanes(to + static_cast<ptrdiff_t>(j) * to_pitch, s.rows[j], first, last);
}

// Rows and columns that fill no square
struct Elements {
  const float* from;
  ptrdiff_t from_pitch;
  float* to;
  ptrdiff_t to_pitch;

  void operator()(size_t first, size_t last, size_t first_col, size_t cols) const {
    for (size_t i = first; i < last; ++i)
      for (size_t j = first_col; j < cols; ++j)
        to[static_cast<ptrdiff_t>(j) * to_pitch + static_cast<ptrdiff_t>(i)] =
            from[static_cast<ptrdiff_t>(i) * from_pitch + static_cast<ptrdiff_t>(j)];
  }
};

// The side whose lines lie further apart is walked along its lines, so that few streams are open at once. Squares stand
// on whole lines of `to` if all its rows lie alike on them: a vector across two lines costs twice.
template <bool stream>
void transpose(const float* from, ptrdiff_t from_pitch, float* to, ptrdiff_t to_pitch, size_t rows, size_t cols) {
  constexpr size_t n = lanes_of<F>;
  const auto at = [](size_t i) { return static_cast<ptrdiff_t>(i); };
  const size_t beyond = reinterpret_cast<size_t>(to) / sizeof(float) % n;
  const bool alike = reinterpret_cast<size_t>(to) % sizeof(float) == 0 && to_pitch % at(n) == 0;
  const size_t head = alike && beyond != 0 && rows >= 2 * n ? n - beyond : 0;
  const size_t squares = rows < n ? 0 : (rows - head) / n, end = squares == 0 ? 0 : head + squares * n;
  const bool past = stream && alike && (beyond == 0 || head != 0);
  const auto square = [&](size_t i, size_t j) {
    const float* const source = from + at(i) * from_pitch + at(j);
    float* const target = to + at(j) * to_pitch + at(i);
    if (past)
      transpose_square<true>(source, from_pitch, target, to_pitch);
    else
      transpose_square<false>(source, from_pitch, target, to_pitch);
  };
  const size_t whole_cols = cols - cols % n;
  const auto edge = [&](size_t i, size_t j, size_t first, size_t last) {  // of the square (i, j)
    if (first < last)
      transpose_square_part(from + at(i) * from_pitch + at(j), from_pitch, to + at(j) * to_pitch + at(i), to_pitch,
                            first, last);
  };
  if (to_pitch > from_pitch) {
    for (size_t j = 0; j < whole_cols; j += n) {
      edge(0, j, 0, head);
      for (size_t i = head; i < end; i += n) square(i, j);
      if (end != 0) edge(rows - n, j, n - (rows - end), n);
    }
  } else {
    for (size_t j = 0; j < whole_cols; j += n) edge(0, j, 0, head);
    for (size_t i = head; i < end; i += n)
      for (size_t j = 0; j < whole_cols; j += n) square(i, j);
    for (size_t j = 0; end != 0 && j < whole_cols; j += n) edge(rows - n, j, n - (rows - end), n);
  }
  const Elements elements{from, from_pitch, to, to_pitch};
  elements(0, rows, whole_cols, cols);
  if (end == 0) elements(0, rows, 0, whole_cols);
}

constexpr VectorUnit make_unit() {
  VectorUnit u{};
  u.name = CODA_UNIT_NAME;
  u.float_lanes = static_cast<int>(lanes_of<F>);
  set_arithmetic<F>(u.float_lane);
  set_logic<F>(u.float_lane);
  set_functions<F>(u.float_lane);
  set_activations<F>(u.float_lane);
  set_arithmetic<D>(u.double_lane);
  set_logic<D>(u.double_lane);
  set_functions<D>(u.double_lane);
  set_activations<D>(u.double_lane);
  u.double_lane[static_cast<int>(Code::round_i32)] = lanewise1<D, [](D x) { return rounded_i32(x); }>;
  const auto set = [&](Code c, LaneFunction f) { u.float_lane[static_cast<int>(c)] = f; };
  set(Code::round_bf16, lanewise1<F, [](F x) { return rounded_bf16(x); }>);
  set(Code::round_f16, lanewise1<F, [](F x) { return rounded_f16(x); }>);
  set(Code::round_tf32, lanewise1<F, [](F x) { return rounded_tf32(x); }>);
  set(Code::sub_fma, lanewise4<F, [](F x, F y, F z, F w) { return multiply_add(x - y, z, w); }>);
  set(Code::sub_mul, lanewise3<F, [](F x, F y, F z) { return (x - y) * z; }>);
  set_normalise(u.normalise);
  const auto collect = [&](Collect c, void (*f)(const AccumulateArgs&)) { u.accumulate[static_cast<int>(c)] = f; };
  collect(Collect::sum, accumulate_sum<itself>);
  collect(Collect::sum_squares, accumulate_sum<squared>);
  collect(Collect::moments, accumulate_moments);
  collect(Collect::largest, accumulate_extreme<the_larger>);
  collect(Collect::smallest, accumulate_extreme<the_smaller>);
  const auto row = [&](RowResult r, void (*f)(const RowArgs&)) { u.reduce_rows[static_cast<int>(r)] = f; };
  row(RowResult::sum, rows_sum);
  row(RowResult::mean, rows_mean);
  row(RowResult::sum_squares, rows_sum_squares);
  row(RowResult::variance, rows_variance);
  row(RowResult::largest, rows_largest);
  row(RowResult::smallest, rows_smallest);
  u.widen = widen;
  u.narrow = narrow;
  u.load_bf16 = load_short<decode_bf16>;
  u.store_bf16 = store_short<encode_bf16>;
  u.load_f16 = load_short<decode_f16>;
  u.store_f16 = store_short<encode_f16>;
  u.copy_rows = copy_rows;
  u.transpose = transpose<false>;
  u.transpose_past_caches = transpose<true>;
  u.finish_stores_past_caches = finish_stores_past_caches;
  return u;
}

}  // namespace

extern const VectorUnit unit;
constexpr VectorUnit unit = make_unit();

}  // namespace CODA_UNIT
