// The error of every function on every vector unit that this processor runs, against the bounds of the reference's
// error model: f = function_ulps roundings for an elementary function, and what it grants compositions of them.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numbers>
#include <vector>

#include "runtime/cpu/vector/unit.hpp"
#include "support/random.hpp"
#include "unisono/error.hpp"

namespace unisono::cpu {
namespace {

/// What an error is measured in, times u = 2^-24.
enum class Unit { result, argument, one };

struct Function {
  const char* name;
  Code code;
  std::function<long double(long double)> exact;
  double low, high;
  double limit = function_ulps;
  Unit unit = Unit::result;
};

long double sigmoid(long double x) { return 1 / (1 + std::exp(-x)); }
long double softplus(long double x) { return std::max(x, 0.0L) + std::log1p(std::exp(-std::abs(x))); }
long double mish(long double x) {
  if (x > 40) return x;
  const long double t = std::exp(x), n = t * (t + 2);
  return x * (n / (n + 2));
}

const std::vector<Function> functions{
    {"exp", Code::exp, [](long double x) { return std::exp(x); }, -87, 88.7},
    {"log", Code::log, [](long double x) { return std::log(x); }, 0, 1e30},
    {"log near 1", Code::log, [](long double x) { return std::log(x); }, 0.5, 2},
    {"log1p", Code::log1p, [](long double x) { return std::log1p(x); }, -0.999, 1e3},
    {"tanh", Code::tanh, [](long double x) { return std::tanh(x); }, -12, 12},
    {"tanh near 0", Code::tanh, [](long double x) { return std::tanh(x); }, -0.05, 0.05},
    {"erf", Code::erf, [](long double x) { return std::erf(x); }, -5, 5},
    {"sin", Code::sin, [](long double x) { return std::sin(x); }, -1000, 1000, function_ulps, Unit::one},
    {"cos", Code::cos, [](long double x) { return std::cos(x); }, -1000, 1000, function_ulps, Unit::one},
    {"rsqrt", Code::rsqrt, [](long double x) { return 1 / std::sqrt(x); }, 1e-6, 1e6},
    {"reciprocal", Code::reciprocal, [](long double x) { return 1 / x; }, -3, 3},
    {"sigmoid", Code::sigmoid, sigmoid, -87, 90},
    {"silu", Code::silu, [](long double x) { return x * sigmoid(x); }, -87, 90, function_ulps + 1},
    {"mish", Code::mish, mish, -87, 90, 2 * function_ulps + 1},
    {"softplus", Code::softplus, softplus, -87, 90, 2 * function_ulps + 1},
    {"logsigmoid", Code::logsigmoid, [](long double x) { return -softplus(-x); }, -90, 87, 2 * function_ulps + 1},
    {"elu", Code::elu, [](long double x) { return x > 0 ? x : std::expm1(x); }, -20, 2, function_ulps + 2, Unit::one},
    {"gelu", Code::gelu, [](long double x) { return x / 2 * std::erfc(-x / std::numbers::sqrt2_v<long double>); }, -9,
     9, function_ulps + 2, Unit::argument},
    {"gelu_tanh", Code::gelu_tanh,
     [](long double x) {
       return x * sigmoid(2 * std::sqrt(2 / std::numbers::pi_v<long double>) * (x + 0.044715L * x * x * x));
     },
     -9, 9, function_ulps + 4, Unit::argument},
};

double scale_of(Unit unit, long double x, long double result) {
  const long double scale = unit == Unit::result ? std::abs(result) : unit == Unit::argument ? std::abs(x) : 1;
  return static_cast<double>(scale * 0x1p-24L + 0x1p-126L);  // subnormal results may be flushed
}

TEST(VectorFunctions, ErrorsAreWithinTheModel) {
  test::Random random(1);
  for (const char* name : {"generic", "avx2", "avx512"}) {
    const VectorUnit* unit = nullptr;
    try {
      unit = &vector_unit(name);
    } catch (const InternalError&) {
      continue;  // this processor has no such instructions
    }
    for (const Function& f : functions) {
      constexpr std::size_t count = 50007;  // the last vector is not full
      std::vector<float> x(count), y(count);
      for (float& v : x) v = static_cast<float>(random.uniform(f.low, f.high));
      LaneArgs a;
      a.result = y.data();
      a.source[0] = x.data();
      a.step[0] = 1;
      a.lanes = count;
      a.immediate[0] = 1;
      unit->float_lane[static_cast<int>(f.code)](a);
      double worst = 0;
      float where = 0;
      for (std::size_t i = 0; i < count; ++i) {
        const long double exact = f.exact(x[i]);
        const double error = static_cast<double>(std::abs(y[i] - exact)) / scale_of(f.unit, x[i], exact);
        if (error > worst) where = x[i];
        worst = std::max(worst, error);
      }
      EXPECT_LE(worst, f.limit) << f.name << " on " << name << " at " << where;
    }
  }
}

TEST(VectorFunctions, Powers) {
  test::Random random(2);
  const VectorUnit& unit = vector_unit();
  constexpr std::size_t count = 20000;
  std::vector<float> x(count), y(count), z(count);
  for (float& v : x) v = static_cast<float>(random.uniform(0, 10));
  for (float& v : y) v = static_cast<float>(random.uniform(-10, 10));
  LaneArgs a{.result = z.data(), .source = {x.data(), y.data()}, .step = {1, 1}, .lanes = count};
  unit.float_lane[static_cast<int>(Code::pow)](a);
  for (std::size_t i = 0; i < count; ++i) {
    const long double exact = std::pow(static_cast<long double>(x[i]), static_cast<long double>(y[i]));
    if (exact > 3e38L) continue;
    ASSERT_LE(static_cast<double>(std::abs(z[i] - exact)), function_ulps * scale_of(Unit::result, x[i], exact))
        << x[i] << " to the " << y[i];
  }
}

}  // namespace
}  // namespace unisono::cpu
