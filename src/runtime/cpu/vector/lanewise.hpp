// Instructions that work lane by lane: an elementary function over whole vectors, and the tables of them by Code.
#pragma once

#include "functions.hpp"
#include "unit.hpp"

namespace UNISONO_UNIT {

namespace {

using unisono::cpu::Code;
using unisono::cpu::LaneArgs;

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

// The column CPU of the table of operations: x, y, z are vectors of lanes, p and q the immediates
template <class V>
constexpr void set_operations(LaneFunction* t) {
  const auto set = [t](Code c, LaneFunction f) { t[static_cast<int>(c)] = f; };
#define CPU(...) __VA_ARGS__
#define UNISONO_FUNCTION(NAME, ...) set(Code::NAME, lanewise1<V, [](V x) { return __VA_ARGS__; }>);
#define UNISONO_FUNCTION_1(NAME, P, P_FIELD, P_DEFAULT, ...) \
  set(Code::NAME, immediate<V, [](V x, V p, V) { return __VA_ARGS__; }>);
#define UNISONO_FUNCTION_2(NAME, P, P_FIELD, P_DEFAULT, Q, Q_FIELD, Q_DEFAULT, ...) \
  set(Code::NAME, immediate<V, [](V x, V p, V q) { return __VA_ARGS__; }>);
#define UNISONO_OPERATOR_1(NAME, ...) set(Code::NAME, lanewise1<V, [](V x) { return __VA_ARGS__; }>);
#define UNISONO_OPERATOR_2(NAME, ...) set(Code::NAME, lanewise2<V, [](V x, V y) { return __VA_ARGS__; }>);
#define UNISONO_OPERATOR_3(NAME, ...) set(Code::NAME, lanewise3<V, [](V x, V y, V z) { return __VA_ARGS__; }>);
#define UNISONO_OPERATOR(NAME, CLASS, ARITY, ...) UNISONO_OPERATOR_##ARITY(NAME, __VA_ARGS__)
#include "ir/operations.inc"
#undef UNISONO_OPERATOR_1
#undef UNISONO_OPERATOR_2
#undef UNISONO_OPERATOR_3
  set(Code::copy, lanewise1<V, [](V x) { return x; }>);
  set(Code::round_bool, lanewise1<V, [](V x) { return truth<V>(x != 0); }>);
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

}  // namespace

}  // namespace UNISONO_UNIT
