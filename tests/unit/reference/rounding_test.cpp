// Rounding toward zero against a definition by neighbours, and stochastic rounding: its neighbours, its mean, and that
// a seed repeats it.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "ir/rounding.hpp"
#include "reference/reference.hpp"
#include "support/float_convert.hpp"
#include "unisono/text.hpp"

namespace unisono::reference::test {
namespace {

constexpr DType types[] = {DType::bf16, DType::f16};

// The next value of `t` on the way to zero, or away from it
double neighbour(double x, DType t, bool away) {
  double y = x;
  for (int bit = -30; support::round_to(y, t) == support::round_to(x, t) && bit < 3; ++bit)
    y = x * (away ? 1 + std::ldexp(1, bit) : 1 - std::ldexp(1, bit));
  return support::round_to(y, t);
}

std::vector<float> numbers() {
  std::mt19937 random(3);
  std::vector<float> all{0.0f, -0.0f, 1.0f, 65504.0f, 65519.0f, -65504.0f, 1e-7f, -6e-8f, 5.9e-8f, 6.1e-5f, 3e-5f};
  for (int i = 0; i < 4000; ++i) {
    const int exponent = static_cast<int>(random() % 34) - 20;
    all.push_back(std::ldexp(static_cast<float>(random() % (1u << 24)) - 0x1p23f, exponent - 23));
  }
  return all;
}

TEST(Rounding, TowardZeroIsTheLargestNotAbove) {
  for (const DType t : types) {
    const UserFunction f = ir::rounding_function(RoundingMode::toward_zero, t);
    for (const float x : numbers()) {
      const double v[] = {x};
      const double y = f.cpu(v), nearest = support::round_to(x, t);
      const double expected = std::abs(nearest) <= std::abs(x) ? nearest : neighbour(nearest, t, false);
      if (!std::isfinite(nearest)) continue;
      EXPECT_EQ(std::abs(nearest) <= std::abs(x) ? y : std::abs(y) <= std::abs(x) ? y : 1e9, y) << x;
      EXPECT_EQ(support::round_to(y, t), y) << x;
      EXPECT_EQ(y, expected) << x << " " << to_string(t);
      EXPECT_EQ(std::signbit(y), std::signbit(x)) << x;
    }
    const double inf = std::numeric_limits<double>::infinity();
    const double above[] = {7e4}, infinite[] = {inf}, none[] = {std::nan("")};
    if (t == DType::f16) {
      EXPECT_EQ(f.cpu(above), 65504);
    }
    EXPECT_EQ(f.cpu(infinite), inf);
    EXPECT_TRUE(std::isnan(f.cpu(none)));
  }
}

// 4,096 bits of each number: the mean is within five of its standard deviations
TEST(Rounding, StochasticIsOneOfTheNeighboursAndUnbiased) {
  constexpr int draws = 4096;
  for (const DType t : types) {
    const UserFunction f = ir::rounding_function(RoundingMode::stochastic, t);
    double total = 0, variance = 0;
    for (const float x : {1.0f + 0x1p-12f, 1.2345f, -0.77f, 3.14159f, -2e-5f, 3.3e-7f, 1234.5f, 0x1p-24f * 0.25f}) {
      const double down[] = {x};
      const double low = ir::rounding_function(RoundingMode::toward_zero, t).cpu(down);
      double sum = 0, high = low;
      for (int i = 0; i < draws; ++i) {
        const double v[] = {x, 11, static_cast<double>(i), 5, 2};
        const double y = f.cpu(v);
        if (y != low) high = y;
        EXPECT_TRUE(y == low || y == high) << x;
        EXPECT_EQ(support::round_to(y, t), y) << x;
        sum += y;
      }
      const double step = std::abs(high - low), p = step == 0 ? 0 : std::abs(x - low) / step;
      const double deviation = step * std::sqrt(p * (1 - p) / draws);
      EXPECT_NEAR(sum / draws, x, 5 * deviation + step * 0x1p-13) << x << " " << to_string(t);
      if (step > 0) total += (sum / draws - x) / step, variance += p * (1 - p) / draws;
    }
    EXPECT_LT(std::abs(total), 4 * std::sqrt(variance)) << to_string(t);
    const double exact[] = {0.5, 1, 2, 3, 0};
    EXPECT_EQ(f.cpu(exact), 0.5);
  }
}

// Known answers of Philox2x32-10: counter and key of zeros, and of ones (Random123's kat_vectors)
TEST(Rounding, StochasticBitsAreThoseOfPhilox) {
  // of 1 + 2^-7·r/2^16 in bf16: the threshold where it goes up tells the upper 16 bits
  const UserFunction f = ir::rounding_function(RoundingMode::stochastic, DType::bf16);
  const auto upper = [&](double seed, double m, double n) {
    int bits = 0;
    for (int bit = 15; bit >= 0; --bit) {  // the most that is added without going up
      const std::uint32_t low = 0x10000u - static_cast<std::uint32_t>(bits | 1 << bit);
      const double v[] = {std::bit_cast<float>(0x3f800000u | (low & 0xffff)), seed, m, n, 0};
      if (low != 0x10000u && f.cpu(v) > 1) bits |= 1 << bit;
    }
    return static_cast<std::uint32_t>(bits);
  };
  EXPECT_EQ(upper(0, 0, 0), 0xff1dae59u >> 16);
  EXPECT_EQ(upper(-1, 4294967295.0, 4294967295.0), 0x2c3f628bu >> 16);
}

TEST(Rounding, ASeedRepeatsAndAnotherDiffers) {
  const Gemm product{.m = 16, .n = 24, .k = 3};
  std::vector<float> a(16 * 3), b(3 * 24);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = 0.37f * static_cast<float>(i % 7) + 0.11f;
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = 0.29f * static_cast<float>(i % 5) - 0.5f;
  const Graph graph = parse("store acc as y : bf16 stochastic(seed)\nstore acc as z : bf16 stochastic(seed)");
  Arguments arguments{.left = {a.data(), DType::f32, {1, 16, 3}, {}}, .right = {b.data(), DType::f32, {1, 3, 24}, {}}};
  arguments.scalars["seed"] = 5;
  const auto first = run(product, graph, arguments), again = run(product, graph, arguments);
  arguments.scalars["seed"] = 6;
  const auto other = run(product, graph, arguments);
  EXPECT_EQ(first.at("y").value, again.at("y").value);
  EXPECT_NE(first.at("y").value, other.at("y").value);
  EXPECT_NE(first.at("y").value, first.at("z").value);
}

}  // namespace
}  // namespace unisono::reference::test
