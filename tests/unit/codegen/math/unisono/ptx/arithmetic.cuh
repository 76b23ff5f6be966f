// kernels/unisono/ptx/arithmetic.cuh for math_test.cpp: a reciprocal and exponentials as far off as CUDA's
// may be, by a unit in the last place up, down or not at all, as their bits have it.
#pragma once
#define reciprocal_approx exact_reciprocal
#include "emulator/device/ptx/arithmetic.cuh"
#undef reciprocal_approx

namespace unisono {

inline float within_a_unit(float y) {
  const u32 bits = __float_as_uint(y);
  if ((bits & 0x7fffffffu) == 0 || !std::isfinite(y)) return y;
  return __uint_as_float(bits + (bits * 2654435761u >> 30) % 3 - 1);
}
inline float reciprocal_approx(float x) { return within_a_unit(exact_reciprocal(x)); }
inline float near_exp(float x) { return within_a_unit(std::exp(x)); }

}  // namespace unisono

#define expf near_exp
