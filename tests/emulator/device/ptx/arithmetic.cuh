// kernels/unisono/ptx/arithmetic.cuh for the emulator. Approximations are exact here, which is within their errors.
#pragma once
#include "unisono/params/words.cuh"

#define UNISONO_DEVICE __device__ __forceinline__

namespace unisono {

inline u32 bf16_bits(float x) {
  const u32 bits = __float_as_uint(x);
  if (x != x) return 0x7fff;
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
inline u32 pack_bf16(float first, float second) { return bf16_bits(first) | bf16_bits(second) << 16; }
inline u32 f16_bits(float x) { return unisono_emulator::bits_as<u16>(static_cast<_Float16>(x)); }
inline u32 pack_f16(float first, float second) { return f16_bits(first) | f16_bits(second) << 16; }
inline float2 unpack_f16(u32 pair) {
  return {static_cast<float>(unisono_emulator::bits_as<_Float16>(u16(pair))),
          static_cast<float>(unisono_emulator::bits_as<_Float16>(u16(pair >> 16)))};
}
inline u32 round_to_tf32(float x) {
  const u32 bits = __float_as_uint(x);
  return (bits & 0x7f800000u) == 0x7f800000u ? bits : bits + 0x1000;
}

inline float max_nan(float x, float y) { return x != x ? x : y != y ? y : x > y ? x : y; }
inline float min_nan(float x, float y) { return x != x ? x : y != y ? y : x < y ? x : y; }

inline u32 max_bf16(u32 one, u32 two) {
  return pack_bf16(max_nan(__uint_as_float(one << 16), __uint_as_float(two << 16)),
                   max_nan(__uint_as_float(one & 0xffff0000u), __uint_as_float(two & 0xffff0000u)));
}
inline u32 max_f16(u32 one, u32 two) {
  const float2 x = unpack_f16(one), y = unpack_f16(two);
  return pack_f16(max_nan(x.x, y.x), max_nan(x.y, y.y));
}

inline float flushed(float x) { return std::fabs(x) < 1.17549435e-38f ? std::copysign(0.f, x) : x; }
inline float tanh_approx(float x) { return std::tanh(x); }
inline float exp2_approx(float x) { return flushed(std::exp2(flushed(x))); }
inline float log2_approx(float x) { return flushed(std::log2(flushed(x))); }
inline float reciprocal_approx(float x) { return flushed(1.f / flushed(x)); }
inline float sqrt_approx(float x) { return std::sqrt(flushed(x)); }
inline float rsqrt_approx(float x) { return 1.f / std::sqrt(flushed(x)); }

inline float as_float(float value) { return value; }

}  // namespace unisono
