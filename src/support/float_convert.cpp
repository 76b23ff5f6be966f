#include "support/float_convert.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "unisono/error.hpp"

namespace unisono::support {

namespace {

enum class Ties { even, away };

// Rounds to `precision` significand bits with the least exponent `emin` (that of the smallest normal), once.
double significand(double x, int precision, int emin, double largest, Ties ties) {
  if (!std::isfinite(x) || x == 0) return x;
  int exponent = 0;
  std::frexp(x, &exponent);  // |x| in [2^(exponent-1), 2^exponent)
  const int quantum = std::max(exponent - 1, emin) - (precision - 1);
  const double scaled = std::ldexp(x, -quantum);  // exact: |scaled| < 2^precision
  const double rounded = ties == Ties::away ? std::round(scaled) : std::nearbyint(scaled);
  const double y = std::ldexp(rounded, quantum);
  if (std::abs(y) > largest) return std::copysign(std::numeric_limits<double>::infinity(), x);
  return rounded == 0 ? std::copysign(0.0, x) : y;
}

// To i32, toward zero
double saturated(double x) {
  if (std::isnan(x)) return 0;
  return std::trunc(std::clamp(x, -2147483648.0, 2147483647.0)) + 0.0;  // -0.5 gives 0, not -0
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
  const double y = std::abs(significand(x, 11, -14, 65504.0, Ties::even));
  if (std::isinf(y)) return static_cast<std::uint16_t>(sign | 0x7c00u);
  if (y < 0x1p-14) return static_cast<std::uint16_t>(sign | static_cast<std::uint16_t>(y * 0x1p24));
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(y));
  return static_cast<std::uint16_t>(sign | ((bits - (112u << 23)) >> 13));
}

double round_to(double x, DType t) {
#define ROUND(...) return __VA_ARGS__;
#define UNISONO_DTYPE(NAME, TEXT, KIND, BYTES, BITS, ...) \
  if (t == DType::NAME) {                                 \
    __VA_ARGS__                                           \
  }
#include "support/dtypes.inc"
  reserved(t);
}

double load(const void* data, std::int64_t index, DType t) {
#define MEMORY(TYPE, READ, STORED)                        \
  {                                                       \
    const TYPE x = static_cast<const TYPE*>(data)[index]; \
    return READ;                                          \
  }
#define UNISONO_DTYPE(NAME, TEXT, KIND, BYTES, BITS, ...) \
  if (t == DType::NAME) {                                 \
    __VA_ARGS__                                           \
  }
#include "support/dtypes.inc"
  reserved(t);
}

void store(void* data, std::int64_t index, DType t, double x) {
  const double y = round_to(x, t);
#define MEMORY(TYPE, READ, STORED)            \
  {                                           \
    static_cast<TYPE*>(data)[index] = STORED; \
    return;                                   \
  }
#define UNISONO_DTYPE(NAME, TEXT, KIND, BYTES, BITS, ...) \
  if (t == DType::NAME) {                                 \
    __VA_ARGS__                                           \
  }
#include "support/dtypes.inc"
  reserved(t);
}

}  // namespace unisono::support
