// Arithmetic instructions that CUDA C++ has no name for, but in headers that cost seconds to read.
#pragma once
#include "unisono/params/words.cuh"

#define UNISONO_DEVICE __device__ __forceinline__

namespace unisono {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define UNISONO_BEFORE_SM80
#endif

// Two floats, rounded to nearest even, as a pair of 16-bit elements: the first in the low half.
#ifdef UNISONO_BEFORE_SM80
UNISONO_DEVICE u32 bf16_bits(float x) {
  const u32 bits = __float_as_uint(x);
  return x != x ? 0x7fffu : (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}
UNISONO_DEVICE u32 pack_bf16(float first, float second) { return bf16_bits(first) | bf16_bits(second) << 16; }
UNISONO_DEVICE u32 pack_f16(float first, float second) {
  u32 pair;
  asm("{.reg .f16 lo, hi; cvt.rn.f16.f32 lo, %1; cvt.rn.f16.f32 hi, %2; mov.b32 %0, {lo, hi};}"
      : "=r"(pair)
      : "f"(first), "f"(second));
  return pair;
}
#else
UNISONO_DEVICE u32 pack_bf16(float first, float second) {
  u32 pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
}
UNISONO_DEVICE u32 pack_f16(float first, float second) {
  u32 pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
}
#endif
UNISONO_DEVICE float2 unpack_f16(u32 pair) {
  float2 values;
  asm("{.reg .f16 lo, hi; mov.b32 {lo, hi}, %2; cvt.f32.f16 %0, lo; cvt.f32.f16 %1, hi;}"
      : "=f"(values.x), "=f"(values.y)
      : "r"(pair));
  return values;
}
// The upper 19 bits count; ties away from zero.
UNISONO_DEVICE u32 round_to_tf32(float x) {
  u32 bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return bits;
}

// NaN if either is, unlike fmaxf and fminf; one instruction too.
#ifdef UNISONO_BEFORE_SM80
UNISONO_DEVICE float max_nan(float x, float y) { return x != x ? x : y != y ? y : fmaxf(x, y); }
UNISONO_DEVICE float min_nan(float x, float y) { return x != x ? x : y != y ? y : fminf(x, y); }
#else
UNISONO_DEVICE float max_nan(float x, float y) {
  float z;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
  return z;
}
UNISONO_DEVICE float min_nan(float x, float y) {
  float z;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
  return z;
}
#endif

// Elementwise maximum of pairs of 16-bit elements; NaN propagates.
#ifdef UNISONO_BEFORE_SM80
UNISONO_DEVICE u32 max_bf16(u32 one, u32 two) {
  return pack_bf16(max_nan(__uint_as_float(one << 16), __uint_as_float(two << 16)),
                   max_nan(__uint_as_float(one & 0xffff0000u), __uint_as_float(two & 0xffff0000u)));
}
UNISONO_DEVICE u32 max_f16(u32 one, u32 two) {
  const float2 x = unpack_f16(one), y = unpack_f16(two);
  return pack_f16(max_nan(x.x, y.x), max_nan(x.y, y.y));
}
#else
UNISONO_DEVICE u32 max_bf16(u32 one, u32 two) {
  u32 larger;
  asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(larger) : "r"(one), "r"(two));
  return larger;
}
UNISONO_DEVICE u32 max_f16(u32 one, u32 two) {
  u32 larger;
  asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(larger) : "r"(one), "r"(two));
  return larger;
}
#endif

// Approximations, with the errors that the PTX ISA states: relative 2^-11 of tanh, 2^-22 of ex2 and rsqrt, 2^-23 of rcp
// and sqrt; of lg2 2^-22, absolute between 1/2 and 2, relative elsewhere.
UNISONO_DEVICE float tanh_approx(float x) {
  float y;
  asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
UNISONO_DEVICE float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
UNISONO_DEVICE float log2_approx(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
UNISONO_DEVICE float reciprocal_approx(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
UNISONO_DEVICE float sqrt_approx(float x) {
  float y;
  asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
UNISONO_DEVICE float rsqrt_approx(float x) {
  float y;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// A value as an epilogue reads an accumulator and as it writes one back. What takes its bits as an integer (a
// shuffle, a sign bit) takes this copy's. Without it the compiler may keep the accumulator itself in an integer
// register, from tile to tile; it then copies it to and fro around matrix instructions that are under way, and loses
// their sums.
UNISONO_DEVICE float as_float(float value) {
  asm("" : "+f"(value));
  return value;
}

}  // namespace unisono
