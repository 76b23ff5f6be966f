// The accurate functions of kernels/unisono/epilogue/math.cuh on the host, beside the same in float64.
#include "unisono/epilogue/math.cuh"

#include <gtest/gtest.h>

#include <random>

namespace unisono {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Function {
  const char* name;
  float (*computed)(float);
  double (*exact)(double);
  double units;  // of 2^-24 of the result, as reference::ErrorModel::function_ulps counts them, that it may be off by
  double at_minus;  // what it is at minus infinity; NaN for 0 times infinity
};

double logistic(double x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }
double softplus(double x) { return std::fmax(x, 0) + std::log1p(std::exp(-std::fabs(x))); }

const Function functions[] = {
    {"sigmoid", math::accurate::sigmoid, logistic, 6, 0},
    {"silu", math::accurate::silu, [](double x) { return x * logistic(x); }, 7, NAN},
    {"mish", math::accurate::mish, [](double x) { return x * std::tanh(softplus(x)); }, 8, NAN},
    {"softplus", math::accurate::softplus, softplus, 6, 0},
    {"logsigmoid", math::accurate::logsigmoid, [](double x) { return -softplus(-x); }, 6, -kInfinity},
};

// Many floats of every size. A result that is not normal may be off by what its factor x makes of a rounding there.
TEST(AccurateFunctions, AreWithinTheirBounds) {
  for (const Function& f : functions) {
    double worst = 0;
    float worst_at = 0;
    for (u32 bits = 0; bits < 0x7f800000u; bits += 4093)
      for (const u32 sign : {0u, 0x80000000u}) {
        const float x = __uint_as_float(bits | sign);
        const double exact = f.exact(x), off = std::fabs(f.computed(x) - exact);
        if (!(std::fabs(exact) < 3.4e38)) continue;
        const double units = off / (0x1p-24 * std::fmax(std::fabs(exact), 0x1p-126 * std::fmax(1, std::fabs(x))));
        if (!(units <= worst)) worst = units, worst_at = x;
      }
    EXPECT_LE(worst, f.units) << f.name << " of " << worst_at;
    std::printf("%s: at most %.2f * 2^-24, of %g\n", f.name, worst, double{worst_at});
  }
}

// Numbers of every size, and what IEEE 754 says of the others
TEST(AccurateFunctions, Quotients) {
  std::mt19937 random(7);
  const auto normal = [&] {
    return __uint_as_float((random() % 0x7f000000u + 0x00800000u) | (random() & 0x80000000u));
  };
  double worst = 0;
  for (int i = 0; i < 400'000; ++i) {
    const float x = normal(), y = normal();
    const double exact = double{x} / y;
    if (std::fabs(exact) > 3.4e38) continue;
    const double off = std::fabs(math::accurate::div(x, y) - exact);
    worst = std::fmax(worst, off / (0x1p-24 * std::fmax(std::fabs(exact), 0x1p-126)));
  }
  EXPECT_LE(worst, 4);
  for (int i = 0; i < 100'000; ++i) {  // integers divide without a remainder
    const float x = static_cast<float>(random() % 4000 + 1), y = static_cast<float>(random() % 4000 + 1);
    ASSERT_EQ(math::accurate::div(x * y, y), x) << y;
  }
  const float ends[] = {0.f,         -0.f,         1.f,       -3.f,       0x1p-126f, 0x1p-120f,
                        0x1.8p+127f, -0x1.8p+127f, kInfinity, -kInfinity, NAN};
  for (const float x : ends)
    for (const float y : ends) {
      const float expected = x / y, computed = math::accurate::div(x, y);
      const bool near = computed == expected || std::fabs(computed - expected) <= 0x1p-22f * std::fabs(expected);
      EXPECT_TRUE(std::isnan(expected) ? std::isnan(computed)
                                       : near && std::signbit(computed) == std::signbit(expected))
          << x << " / " << y << ": " << computed;
    }
}

TEST(AccurateFunctions, AtTheEnds) {
  for (const Function& f : functions) {
    EXPECT_TRUE(std::isnan(f.computed(NAN))) << f.name;
    const float at_minus = f.computed(-kInfinity);
    EXPECT_TRUE(std::isnan(f.at_minus) ? std::isnan(at_minus) : at_minus == f.at_minus) << f.name << ": " << at_minus;
  }
  EXPECT_EQ(math::accurate::sigmoid(kInfinity), 1);
  EXPECT_EQ(math::accurate::silu(kInfinity), kInfinity);
  EXPECT_EQ(math::accurate::mish(kInfinity), kInfinity);
  EXPECT_EQ(math::accurate::softplus(kInfinity), kInfinity);
  EXPECT_EQ(math::accurate::logsigmoid(kInfinity), 0);
}

}  // namespace
}  // namespace unisono
