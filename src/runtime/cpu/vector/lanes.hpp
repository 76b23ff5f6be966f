// Vectors of lanes, in the width of the instruction set that the including file is compiled for.
//
// These headers are included by kernels.cpp only, which is compiled once per instruction set. Everything here lives in
// that set's own namespace and no inline function of a standard header is used: the linker may keep any one of several
// copies of an inline function, and one compiled for AVX-512 must not end up in the generic path.
#pragma once

#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__)
#include <immintrin.h>  // always inlined, so never shared between instruction sets
#endif

#if defined(__AVX512F__)
#define UNISONO_VECTOR_BYTES 64
#elif defined(__AVX2__)
#define UNISONO_VECTOR_BYTES 32
#else
#define UNISONO_VECTOR_BYTES 16
#endif

namespace UNISONO_UNIT {

constexpr size_t vector_bytes = UNISONO_VECTOR_BYTES;

using F = float __attribute__((vector_size(UNISONO_VECTOR_BYTES)));
using I = int32_t __attribute__((vector_size(UNISONO_VECTOR_BYTES)));
using U = uint32_t __attribute__((vector_size(UNISONO_VECTOR_BYTES)));
using D = double __attribute__((vector_size(UNISONO_VECTOR_BYTES)));
using L = int64_t __attribute__((vector_size(UNISONO_VECTOR_BYTES)));
using Fhalf = float __attribute__((vector_size(UNISONO_VECTOR_BYTES / 2)));  // as many lanes as D

template <class V>
struct Lane;
template <>
struct Lane<F> {
  using type = float;
  using Mask = I;
};
template <>
struct Lane<D> {
  using type = double;
  using Mask = L;
};
template <class V>
using LaneOf = typename Lane<V>::type;
template <class V>
constexpr size_t lanes_of = vector_bytes / sizeof(LaneOf<V>);

template <class V>
inline V load(const LaneOf<V>* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
template <class V>
inline void store(LaneOf<V>* p, V v) {
  __builtin_memcpy(p, &v, sizeof v);
}
// The first n lanes; the others are 0
template <class V>
inline V load_part(const LaneOf<V>* p, size_t n) {
#if defined(__AVX512F__)
  if constexpr (sizeof(LaneOf<V>) == sizeof(float))
    return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << n) - 1), p);
#endif
  V v = {};
  for (size_t i = 0; i < n; ++i) v[i] = p[i];
  return v;
}
template <class V>
inline void store_part(LaneOf<V>* p, V v, size_t n) {
#if defined(__AVX512F__)
  if constexpr (sizeof(LaneOf<V>) == sizeof(float)) {
    _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << n) - 1), v);
    return;
  }
#endif
  for (size_t i = 0; i < n; ++i) p[i] = v[i];
}
template <class V>
inline V splat(double x) {
  return static_cast<LaneOf<V>>(x) - V{};  // keeps the sign of -0, which a sum with 0 loses
}

// The first n lanes; the others are `rest`
inline F load_part_or(const float* p, size_t n, F rest) {
#if defined(__AVX512F__)
  return _mm512_mask_loadu_ps(rest, static_cast<__mmask16>((1u << n) - 1), p);
#else
  for (size_t i = 0; i < n; ++i) rest[i] = p[i];
  return rest;
#endif
}

// All lanes joined to one, by halves: of 16 lanes in four steps
template <auto join>
inline float joined(F v) {
#if defined(__AVX512F__)
  v = join(v, (F)_mm512_shuffle_f32x4(v, v, 0x4e));
  v = join(v, (F)_mm512_shuffle_f32x4(v, v, 0xb1));
  v = join(v, (F)_mm512_permute_ps(v, 0x4e));
  v = join(v, (F)_mm512_permute_ps(v, 0xb1));
#elif defined(__AVX2__)
  v = join(v, (F)_mm256_permute2f128_ps(v, v, 1));
  v = join(v, (F)_mm256_permute_ps(v, 0x4e));
  v = join(v, (F)_mm256_permute_ps(v, 0xb1));
#else
  for (size_t half = lanes_of<F> / 2; half > 0; half /= 2) {
    F upper = v;
    for (size_t i = 0; i < half; ++i) upper[i] = v[i + half];
    v = join(v, upper);
  }
#endif
  return v[0];
}

// The lanes [first, last)
inline void store_lanes(float* p, F v, size_t first, size_t last) {
#if defined(__AVX512F__)
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << last) - (1u << first)), v);
#else
  for (size_t i = first; i < last; ++i) p[i] = v[i];
#endif
}

// A whole cache line or half of one, aligned, that no cache shall keep. Such stores are ordered by the function below.
inline void store_past_caches(float* p, F v) {
#if defined(__AVX512F__)
  _mm512_stream_ps(p, v);
#elif defined(__AVX2__)
  _mm256_stream_ps(p, v);
#else
  store<F>(p, v);
#endif
}
inline void finish_stores_past_caches() {
#if defined(__AVX2__)
  _mm_sfence();
#endif
}

inline I bits(F x) { return reinterpret_cast<I>(x); }
inline F number(I x) { return reinterpret_cast<F>(x); }
inline L bits(D x) { return reinterpret_cast<L>(x); }
inline D number(L x) { return reinterpret_cast<D>(x); }

// |x| and the sign bit of x
template <class V>
inline V magnitude(V x) {
  return number(bits(x) & ~bits(splat<V>(-0.0)));
}
template <class V>
inline V sign_of(V x) {
  return number(bits(x) & bits(splat<V>(-0.0)));
}
template <class V>
inline V with_sign(V x, V sign) {
  return number(bits(x) | bits(sign));
}

// Bounds of which NaN takes no notice: of two numbers, one of them NaN, the instructions give the second
#if defined(__AVX512F__)
inline F square_root(F x) { return _mm512_sqrt_ps(x); }
inline D square_root(D x) { return _mm512_sqrt_pd(x); }
inline F multiply_add(F x, F y, F z) { return _mm512_fmadd_ps(x, y, z); }
inline D multiply_add(D x, D y, D z) { return _mm512_fmadd_pd(x, y, z); }
inline F at_least(F x, float least) { return _mm512_max_ps(splat<F>(static_cast<double>(least)), x); }
inline F at_most(F x, float most) { return _mm512_min_ps(splat<F>(static_cast<double>(most)), x); }
inline F to_integer(F x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
inline D toward_zero(D x) { return _mm512_roundscale_pd(x, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC); }
#elif defined(__AVX2__)
inline F square_root(F x) { return _mm256_sqrt_ps(x); }
inline D square_root(D x) { return _mm256_sqrt_pd(x); }
inline F multiply_add(F x, F y, F z) { return _mm256_fmadd_ps(x, y, z); }
inline D multiply_add(D x, D y, D z) { return _mm256_fmadd_pd(x, y, z); }
inline F at_least(F x, float least) { return _mm256_max_ps(splat<F>(static_cast<double>(least)), x); }
inline F at_most(F x, float most) { return _mm256_min_ps(splat<F>(static_cast<double>(most)), x); }
inline F to_integer(F x) { return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
inline D toward_zero(D x) { return _mm256_round_pd(x, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC); }
#else
template <class V, class Function>
inline V by_lane(V x, Function f) {
  for (size_t i = 0; i < lanes_of<V>; ++i) x[i] = f(x[i]);
  return x;
}
inline F square_root(F x) {
  return by_lane(x, [](float t) { return __builtin_sqrtf(t); });
}
inline D square_root(D x) {
  return by_lane(x, [](double t) { return __builtin_sqrt(t); });
}
// Without a fused instruction, in two roundings
inline F multiply_add(F x, F y, F z) { return x * y + z; }
inline D multiply_add(D x, D y, D z) { return x * y + z; }
inline F at_least(F x, float least) { return x < least ? splat<F>(static_cast<double>(least)) : x; }
inline F at_most(F x, float most) { return x > most ? splat<F>(static_cast<double>(most)) : x; }
inline F to_integer(F x) {
  return by_lane(x, [](float t) { return __builtin_rintf(t); });
}
inline D toward_zero(D x) {
  return by_lane(x, [](double t) { return __builtin_trunc(t); });
}
#endif

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

}  // namespace UNISONO_UNIT
