#include "support/float_convert.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "unisono/error.hpp"

namespace unisono::support {
namespace {

TEST(FloatConvert, EveryF16RoundTrips) {
  for (std::uint32_t bits = 0; bits < 0x10000u; ++bits) {
    const auto b = static_cast<std::uint16_t>(bits);
    const float x = f16_to_float(b);
    if (std::isnan(x)) {
      EXPECT_GT(bits & 0x7fffu, 0x7c00u);
      EXPECT_TRUE(std::isnan(f16_to_float(float_to_f16(x))));
      continue;
    }
    ASSERT_EQ(float_to_f16(x), b) << bits;
  }
}

TEST(FloatConvert, EveryBf16RoundTrips) {
  for (std::uint32_t bits = 0; bits < 0x10000u; ++bits) {
    const auto b = static_cast<std::uint16_t>(bits);
    const float x = bf16_to_float(b);
    if (std::isnan(x)) {
      EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(x))));
      continue;
    }
    ASSERT_EQ(float_to_bf16(x), b) << bits;
  }
}

// Midpoints between neighbours go to the even one, and points beside the midpoint to the nearer one.
TEST(FloatConvert, F16RoundsToNearestEven) {
  for (std::uint16_t bits = 0; bits < 0x7bff; ++bits) {
    const double low = f16_to_float(bits), high = f16_to_float(static_cast<std::uint16_t>(bits + 1));
    const double middle = (low + high) / 2;
    const auto even = static_cast<std::uint16_t>(bits % 2 == 0 ? bits : bits + 1);
    ASSERT_EQ(float_to_f16(static_cast<float>(middle)), even) << bits;
    ASSERT_EQ(float_to_f16(std::nextafter(static_cast<float>(middle), 1e9f)), bits + 1) << bits;
    ASSERT_EQ(float_to_f16(std::nextafter(static_cast<float>(middle), -1e9f)), bits) << bits;
  }
  EXPECT_EQ(float_to_f16(65519.0f), 0x7bff);
  EXPECT_EQ(float_to_f16(65520.0f), 0x7c00);
}

TEST(FloatConvert, RoundToAgreesWithTheBitConversions) {
  std::mt19937 random(1);
  for (int i = 0; i < 200000; ++i) {
    const float x = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (!std::isfinite(x)) continue;
    ASSERT_EQ(round_to(x, DType::bf16), bf16_to_float(float_to_bf16(x))) << x;
    ASSERT_EQ(round_to(x, DType::f16), f16_to_float(float_to_f16(x))) << x;
  }
}

TEST(FloatConvert, Tf32TiesGoAwayFromZero) {
  EXPECT_EQ(round_to(1.0 + 0x1p-11, DType::tf32), 1.0 + 0x1p-10);
  EXPECT_EQ(round_to(-1.0 - 0x1p-11, DType::tf32), -1.0 - 0x1p-10);
  EXPECT_EQ(round_to(1.0 + 0x1p-12, DType::tf32), 1.0);
}

TEST(FloatConvert, IntegersSaturateAndTruncate) {
  EXPECT_EQ(round_to(2.9, DType::i32), 2);
  EXPECT_EQ(round_to(-2.9, DType::i32), -2);
  EXPECT_FALSE(std::signbit(round_to(-0.5, DType::i32)));
  EXPECT_EQ(round_to(1e20, DType::i32), 2147483647.0);
  EXPECT_EQ(round_to(std::numeric_limits<double>::quiet_NaN(), DType::i32), 0);
  EXPECT_EQ(round_to(0.25, DType::boolean), 1);
}

// docs/numerics.md, operands of two types: tf32 holds both, neither 16-bit type the other
TEST(FloatConvert, Tf32HoldsEveryShortValue) {
  int lost_by_bf16 = 0, lost_by_f16 = 0;
  for (std::uint32_t bits = 0; bits < 0x10000u; ++bits) {
    const double half = f16_to_float(static_cast<std::uint16_t>(bits)),
                 brain = bf16_to_float(static_cast<std::uint16_t>(bits));
    if (!std::isnan(half)) {
      ASSERT_EQ(round_to(half, DType::tf32), half) << bits;
      lost_by_bf16 += round_to(half, DType::bf16) != half;
    }
    if (!std::isnan(brain)) {
      ASSERT_EQ(round_to(brain, DType::tf32), brain) << bits;
      const bool lost = round_to(brain, DType::f16) != brain,
                 fits = brain == 0 || (std::abs(brain) >= 0x1p-17 && std::abs(brain) <= 65504);
      ASSERT_FALSE(lost && fits) << bits;
      lost_by_f16 += lost;
    }
  }
  EXPECT_GT(lost_by_bf16, 0x8000);
  EXPECT_GT(lost_by_f16, 0x8000);
}

TEST(FloatConvert, Fp8IsRefused) { EXPECT_THROW(round_to(1, DType::f8e4m3), Unsupported); }

TEST(DTypeNames, RoundTrip) {
  for (int i = 0; i < dtype_count; ++i) {
    const auto t = static_cast<DType>(i);
    EXPECT_EQ(dtype_from_string(to_string(t)), t);
  }
  EXPECT_FALSE(dtype_from_string("float"));
}

}  // namespace
}  // namespace unisono::support
