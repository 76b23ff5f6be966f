#include "support/float_convert.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "unisono/error.hpp"

namespace unisono::support {

namespace {

// Rounds to `precision` significand bits with the least exponent `emin` (that of the smallest normal), once.
double round_significand(double x, int precision, int emin, double largest, bool ties_away) {
  if (!std::isfinite(x) || x == 0) return x;
  int exponent = 0;
  std::frexp(x, &exponent);  // |x| in [2^(exponent-1), 2^exponent)
  const int quantum = std::max(exponent - 1, emin) - (precision - 1);
  const double scaled = std::ldexp(x, -quantum);  // exact: |scaled| < 2^precision
  const double rounded = ties_away ? std::round(scaled) : std::nearbyint(scaled);
  const double y = std::ldexp(rounded, quantum);
  if (std::abs(y) > largest) return std::copysign(std::numeric_limits<double>::infinity(), x);
  return rounded == 0 ? std::copysign(0.0, x) : y;
}

[[noreturn]] void reserved(DType t) {
  throw Unsupported("dtype " + std::string(to_string(t)) +
                    " is reserved or one of networks only: no epilogue reads, writes or computes in it");
}

}  // namespace

float f16_to_float(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  if (magnitude < 0x400u) {  // zero or subnormal: magnitude·2^-24
    const float value = static_cast<float>(magnitude) * 0x1p-24f;
    return sign ? -value : value;
  }
  return std::bit_cast<float>(sign | ((magnitude << 13) + (112u << 23)));
}

std::uint16_t float_to_f16(float x) {
  const auto sign = static_cast<std::uint16_t>((std::bit_cast<std::uint32_t>(x) >> 16) & 0x8000u);
  if (std::isnan(x)) return static_cast<std::uint16_t>(sign | 0x7e00u);
  const double y = std::abs(round_significand(x, 11, -14, 65504.0, false));
  if (std::isinf(y)) return static_cast<std::uint16_t>(sign | 0x7c00u);
  if (y < 0x1p-14) return static_cast<std::uint16_t>(sign | static_cast<std::uint16_t>(y * 0x1p24));
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(y));
  return static_cast<std::uint16_t>(sign | ((bits - (112u << 23)) >> 13));
}

double round_to(double x, DType t) {
  switch (t) {
    case DType::f64: return x;
    case DType::f32: return static_cast<double>(static_cast<float>(x));
    case DType::tf32: return round_significand(x, 11, -126, 0x1.ffcp127, true);
    case DType::f16: return round_significand(x, 11, -14, 65504.0, false);
    case DType::bf16: return round_significand(x, 8, -126, 0x1.fep127, false);
    case DType::i32:
      if (std::isnan(x)) return 0;
      return std::trunc(std::clamp(x, -2147483648.0, 2147483647.0)) + 0.0;  // -0.5 gives 0, not -0
    case DType::boolean: return x != 0 ? 1 : 0;
    default: reserved(t);
  }
  return x;
}

double load(const void* data, std::int64_t index, DType t) {
  switch (t) {
    case DType::f64: return static_cast<const double*>(data)[index];
    case DType::f32:
    case DType::tf32: return static_cast<const float*>(data)[index];
    case DType::f16: return f16_to_float(static_cast<const std::uint16_t*>(data)[index]);
    case DType::bf16: return bf16_to_float(static_cast<const std::uint16_t*>(data)[index]);
    case DType::i32: return static_cast<const std::int32_t*>(data)[index];
    case DType::boolean: return static_cast<const std::uint8_t*>(data)[index] != 0 ? 1 : 0;
    default: reserved(t);
  }
  return 0;
}

void store(void* data, std::int64_t index, DType t, double x) {
  const double y = round_to(x, t);
  switch (t) {
    case DType::f64: static_cast<double*>(data)[index] = y; break;
    case DType::f32:
    case DType::tf32: static_cast<float*>(data)[index] = static_cast<float>(y); break;
    case DType::f16: static_cast<std::uint16_t*>(data)[index] = float_to_f16(static_cast<float>(y)); break;
    case DType::bf16: static_cast<std::uint16_t*>(data)[index] = float_to_bf16(static_cast<float>(y)); break;
    case DType::i32: static_cast<std::int32_t*>(data)[index] = static_cast<std::int32_t>(y); break;
    case DType::boolean: static_cast<std::uint8_t*>(data)[index] = y != 0; break;
    default: reserved(t);
  }
}

}  // namespace unisono::support
