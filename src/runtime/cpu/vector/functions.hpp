// Elementary functions of a vector of lanes. Their errors are stated in docs/cpu-backend.md and measured by
// tests/unit/cpu/vector_functions_test.cpp.
#pragma once

#include <sleef.h>

#include "lanes.hpp"

namespace UNISONO_UNIT {

#if defined(__AVX512F__)
#define UNISONO_SLEEF_F(NAME, ACCURACY) Sleef_##NAME##f16_##ACCURACY##avx512f
#define UNISONO_SLEEF_D(NAME, ACCURACY) Sleef_##NAME##d8_##ACCURACY##avx512f
#elif defined(__AVX2__)
#define UNISONO_SLEEF_F(NAME, ACCURACY) Sleef_##NAME##f8_##ACCURACY##avx2
#define UNISONO_SLEEF_D(NAME, ACCURACY) Sleef_##NAME##d4_##ACCURACY##avx2
#else
#define UNISONO_SLEEF_F(NAME, ACCURACY) Sleef_##NAME##f4_##ACCURACY
#define UNISONO_SLEEF_D(NAME, ACCURACY) Sleef_##NAME##d2_##ACCURACY
#endif

#define UNISONO_FUNCTION(OURS, SLEEF, ACCURACY)                         \
  inline F OURS(F x) { return (F)UNISONO_SLEEF_F(SLEEF, ACCURACY)(x); } \
  inline D OURS(D x) { return (D)UNISONO_SLEEF_D(SLEEF, ACCURACY)(x); }
UNISONO_FUNCTION(logarithm, log, u10)
UNISONO_FUNCTION(logarithm1p, log1p, u10)
UNISONO_FUNCTION(exponential_m1, expm1, u10)
UNISONO_FUNCTION(tangent_h, tanh, u10)
UNISONO_FUNCTION(sine, sin, u10)
UNISONO_FUNCTION(cosine, cos, u10)
#undef UNISONO_FUNCTION
inline F power(F x, F y) { return (F)UNISONO_SLEEF_F(pow, u10)(x, y); }
inline D power(D x, D y) { return (D)UNISONO_SLEEF_D(pow, u10)(x, y); }
inline D error_function(D x) { return (D)UNISONO_SLEEF_D(erf, u10)(x); }
inline D exponential(D x) { return (D)UNISONO_SLEEF_D(exp, u10)(x); }

// p·2^n for a whole number n in [-252, 254], exact unless the result is subnormal
inline F scale(F p, F n) {
#if defined(__AVX512F__)
  return _mm512_scalef_ps(p, n);
#else
  const I whole = __builtin_convertvector(n, I), half = whole >> 1;
  return p * number((half + 127) << 23) * number((whole - half + 127) << 23);
#endif
}

// e^x for x in [-110, 90] = 2^n·e^r with n = round(x/ln 2), |r| <= ln(2)/2: r by two steps (Cody and Waite 1980), e^r
// by a polynomial of degree 6 (near-minimax; relative error 2^-28). At most 1.1·u plus the rounding of the result.
inline F exponential_in_range(F x) {
  const F n = to_integer(x * 1.44269504f);
  F r = multiply_add(n, splat<F>(-0.693359375), x);  // exact: the constant has 9 bits
  r = multiply_add(n, splat<F>(2.12194440e-4), r);
  F p = splat<F>(1.0 / 720);
  p = multiply_add(p, r, splat<F>(8.3680139e-3));
  p = multiply_add(p, r, splat<F>(4.16666418e-2));
  p = multiply_add(p, r, splat<F>(1.66664287e-1));
  p = multiply_add(p, r, splat<F>(0.5));
  p = multiply_add(p * r, r, r) + 1.0f;
  return scale(p, n);
}

// Below -110, e^x is 0; above 90, infinity
inline F exponential(F x) { return exponential_in_range(at_most(at_least(x, -110.0f), 90.0f)); }

// e^-|x|
inline F exponential_down(F x) { return exponential_in_range(at_least(with_sign(x, splat<F>(-0.0)), -110.0f)); }
inline D exponential_down(D x) { return exponential(-magnitude(x)); }

// Below 1 x + x·P(x²), else 1 − e^−Q(|x|) with Q ≈ −ln erfc, which no float tells from 1 from 3.95 on. P and Q are
// near-minimax (relative error of the result 2^-29 and 2^-35); at most 1.3·u in all.
inline F error_function(F x) {
  const F square = x * x;
  F p = splat<F>(7.853857823647559e-05);
  p = multiply_add(p, square, splat<F>(-0.0008010192541405559));
  p = multiply_add(p, square, splat<F>(0.005188327748328447));
  p = multiply_add(p, square, splat<F>(-0.026853810995817184));
  p = multiply_add(p, square, splat<F>(0.1128358542919159));
  p = multiply_add(p, square, splat<F>(-0.3761262595653534));
  p = multiply_add(p, square, splat<F>(0.12837916612625122));
  const F size = magnitude(x), t = at_most(size, 3.95f);
  F q = splat<F>(2.1686850232072175e-05);
  q = multiply_add(q, t, splat<F>(-0.0004413363931234926));
  q = multiply_add(q, t, splat<F>(0.004204561933875084));
  q = multiply_add(q, t, splat<F>(-0.025208257138729095));
  q = multiply_add(q, t, splat<F>(0.10841857641935349));
  q = multiply_add(q, t, splat<F>(0.6332198977470398));
  q = multiply_add(q, t, splat<F>(1.1295784711837769));
  q = multiply_add(q, t, splat<F>(-0.00018804031424224377));
  const F far = with_sign(1.0f - exponential_in_range(-q), sign_of(x));
  return size >= 1.0f ? far : multiply_add(x, p, x);  // NaN takes the latter, which is NaN
}

template <class V>
inline V larger(V x, V y) {  // NaN if either is
  return ((x > y) | (x != x)) ? x : y;
}
template <class V>
inline V smaller(V x, V y) {
  return ((x < y) | (x != x)) ? x : y;
}

// 1/(1 + e^-x), from e^-|x| so that nothing overflows
template <class V>
inline V logistic(V x) {
  const V t = exponential_down(x);
  return (x < 0 ? t : splat<V>(1.0)) / (t + 1);
}

// x/(1 + e^-x)
template <class V>
inline V silu_of(V x) {
  const V t = exponential_down(x);
  return (x < 0 ? x * t : x) / (t + 1);
}

// ln(1 + e^x)
template <class V>
inline V soft_plus(V x) {
  const V positive = x > 0 ? x : V{};
  const V y = positive + logarithm1p(exponential_down(x));
  return x != x ? x : y;
}

// x·tanh(ln(1 + t)) with t = e^x: tanh(ln(1 + t)) = n/(n + 2), n = t·(t + 2). From 20 on that is 1 in either type.
template <class V>
inline V mish_of(V x) {
  const V t = exponential(x > 20 ? splat<V>(20.0) : x);
  const V n = t * (t + 2);
  return x * (n / (n + 2));
}

// ½·x·(1 + erf(x/√2))
template <class V>
inline V gelu_of(V x) {
  return x * 0.5f * (error_function(x * splat<V>(0.70710678118654752440)) + 1);
}

// x·Φ(x) with Φ(-|x|) = 2^-Q(|x|), which no float tells from 0 beside x from 5.6 on. 2^r for |r| <= ½ and Q are
// near-minimax (relative error 2^-29; absolute error of Φ 2^-27); at most 2.0·u·|x| in all.
inline F gelu_of(F x) {
  const F size = magnitude(x), t = at_most(size, 5.6f);
  F q = splat<F>(2.7720492258762484e-06);
  q = multiply_add(q, t, splat<F>(-3.8620746731975746e-05));
  q = multiply_add(q, t, splat<F>(0.00018254759418061137));
  q = multiply_add(q, t, splat<F>(0.00014587016425770763));
  q = multiply_add(q, t, splat<F>(-0.007075471824648407));
  q = multiply_add(q, t, splat<F>(0.052505028737517515));
  q = multiply_add(q, t, splat<F>(0.45920490724212254));
  q = multiply_add(q, t, splat<F>(1.1511057235277555));
  q = multiply_add(q, t, splat<F>(0.9999999782823611));
  const F n = to_integer(-q), r = -q - n;
  F p = splat<F>(0.00015476293146058888);
  p = multiply_add(p, r, splat<F>(0.001340026999623689));
  p = multiply_add(p, r, splat<F>(0.009618003915707513));
  p = multiply_add(p, r, splat<F>(0.05550327790020084));
  p = multiply_add(p, r, splat<F>(0.24022651345700655));
  p = multiply_add(p, r, splat<F>(0.6931472062491423));
  const F tail = scale(multiply_add(p, r, splat<F>(1.0)), n), below = size >= 5.6f ? F{} : tail;
  return x * (x > 0 ? 1.0f - below : below);
}

// ½·x·(1 + tanh(g)) = x/(1 + e^-2g), g = √(2/π)·(x + 0.044715·x³)
template <class V>
inline V gelu_tanh_of(V x) {
  const V cube = x * x * x;
  return x * logistic(splat<V>(1.5957691216057307) * multiply_add(cube, splat<V>(0.044715), x));
}

template <class V>
inline V elu_of(V x, V alpha) {
  return x > 0 ? x : alpha * exponential_m1(x);
}

template <class V>
inline V leaky(V x, V slope) {
  return x > 0 ? x : slope * x;
}

template <class V>
inline V clamped(V x, V lower, V upper) {  // NaN stays
  const V y = x < lower ? lower : x;
  return y > upper ? upper : y;
}

// x·min(max((x + 3)/6, 0), 1): exactly x from 3 on, as x·hardsigmoid(x) is; near −3 the sum is exact
template <class V>
inline V hardswish_of(V x) {
  return x * clamped((x + 3) / 6, V{}, splat<V>(1.0));
}

// To nearest even in 7 bits of mantissa; NaN stays NaN
inline F rounded_bf16(F x) {
  const U i = reinterpret_cast<U>(x);
  const U r = (i + 0x7fffu + ((i >> 16) & 1u)) & ~0xffffu;
  return x != x ? x : reinterpret_cast<F>(r);
}

// To nearest, ties away from zero, in 10 bits of mantissa
inline F rounded_tf32(F x) {
  const U i = reinterpret_cast<U>(x);
  const U r = (i + 0x1000u) & ~0x1fffu;
  return (i & 0x7f800000u) == 0x7f800000u ? x : reinterpret_cast<F>(r);
}

// To nearest even in binary16: adding and subtracting a power of two rounds at the right place, subnormals included
inline F rounded_f16(F x) {
  const F a = magnitude(x);
  const F bounded = a <= 131072.0f ? a : splat<F>(131072.0);  // NaN too
  // the unit in the last place is 2^(exponent - 10), at least 2^-24; adding 1.5·2^23 units pushes all lower bits out
  I exponent = bits(bounded) & 0x7f800000;
  exponent = exponent < (113 << 23) ? I{} + (113 << 23) : exponent;
  const F shift = number(exponent + (13 << 23)) * 1.5f;
  F y = (bounded + shift) - shift;
  y = y > 65504.0f ? splat<F>(__builtin_inff()) : y;
  return x != x ? x : with_sign(y, sign_of(x));
}

// Toward zero, saturating; NaN becomes 0
inline D rounded_i32(D x) {
  const D y = clamped(x, splat<D>(-2147483648.0), splat<D>(2147483647.0));
  return x != x ? D{} : toward_zero(y);
}

}  // namespace UNISONO_UNIT
