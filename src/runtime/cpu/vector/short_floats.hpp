// bf16 and f16 in memory, to and from floats.
#pragma once

#include "functions.hpp"

namespace UNISONO_UNIT {

namespace {

using Short = uint16_t __attribute__((vector_size(UNISONO_VECTOR_BYTES / 2)));  // as many lanes as F

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

}  // namespace

}  // namespace UNISONO_UNIT
