#pragma once
/// Rounding to the short floating-point types, and reading and writing one element of any dtype as f64.

#include <bit>
#include <cstdint>

#include "unisono/dtype.hpp"

namespace unisono::support {

/// bf16 → f32, exact.
inline float bf16_to_float(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

/// f32 → bf16, to nearest even; NaN stays NaN (quiet).
inline std::uint16_t float_to_bf16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

/// IEEE binary16 → f32, exact.
float f16_to_float(std::uint16_t bits);

/// f32 → IEEE binary16, to nearest even; overflow gives infinity.
std::uint16_t float_to_f16(float x);

/// f64 rounded once to the values of `t`, to nearest even (tf32: to nearest, ties away from zero, as the GPU's cvt.rna
/// does); i32 saturates and truncates toward zero; bool is x != 0. The fp8 types are reserved: throws Unsupported.
double round_to(double x, DType t);

/// Element `index` of dense memory of type `t`, as f64 (exact).
double load(const void* data, std::int64_t index, DType t);

/// Rounds x to `t` (as round_to) and writes it as element `index`.
void store(void* data, std::int64_t index, DType t, double x);

}  // namespace unisono::support
