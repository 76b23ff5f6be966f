// The error of every function on every vector unit that this processor runs, in the unit that the error model uses.

#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include "unit/cpu/problem.hpp"

namespace coda::cpu {
namespace {

struct Function {
  const char* name;
  Code code;
  std::function<long double(long double)> exact;
  float low, high;
};

long double sigmoid(long double x) { return 1 / (1 + std::exp(-x)); }
long double softplus(long double x) { return std::max(x, 0.0L) + std::log1p(std::exp(-std::abs(x))); }

const std::vector<Function> functions{
    {"exp", Code::exp, [](long double x) { return std::exp(x); }, -80, 80},
    {"log", Code::log, [](long double x) { return std::log(x); }, 1e-3f, 1e6f},
    {"log1p", Code::log1p, [](long double x) { return std::log1p(x); }, -0.9f, 1e3f},
    {"tanh", Code::tanh, [](long double x) { return std::tanh(x); }, -12, 12},
    {"erf", Code::erf, [](long double x) { return std::erf(x); }, -5, 5},
    {"sigmoid", Code::sigmoid, sigmoid, -60, 60},
    {"silu", Code::silu, [](long double x) { return x * sigmoid(x); }, -60, 60},
    {"mish", Code::mish, [](long double x) { return x * std::tanh(softplus(x)); }, -30, 60},
    {"softplus", Code::softplus, softplus, -60, 60},
    {"logsigmoid", Code::logsigmoid, [](long double x) { return -softplus(-x); }, -60, 60},
    {"gelu_tanh", Code::gelu_tanh,
     [](long double x) {
       return x * sigmoid(2 * std::sqrt(2 / 3.14159265358979323846L) * (x + 0.044715L * x * x * x));
     },
     -1, 8},
};

TEST(VectorFunctions, ErrorsAreWithinTheModel) {
  std::mt19937 random(1);
  for (const char* name : {"generic", "avx2", "avx512"}) {
    const VectorUnit* unit = nullptr;
    try {
      unit = &vector_unit(name);
    } catch (const std::exception&) {
      continue;  // this processor has no such instructions
    }
    for (const Function& f : functions) {
      std::uniform_real_distribution<float> values(f.low, f.high);
      constexpr std::size_t count = 10007;  // the last vector is not full
      std::vector<float> x(count + scalar_lanes), y(count + scalar_lanes, -7.0f);
      for (float& v : x) v = values(random);
      LaneArgs a;
      a.result = y.data();
      a.source[0] = x.data();
      a.step[0] = 1;
      a.lanes = count;
      unit->float_lane[static_cast<int>(f.code)](a);
      double worst = 0;
      for (std::size_t i = 0; i < count; ++i) {
        const long double exact = f.exact(x[i]);
        const auto error = static_cast<double>(std::abs(y[i] - exact) / (std::abs(exact) * 0x1p-24L + 1e-42L));
        worst = std::max(worst, error);
      }
      // x near the argument's own rounding: gelu_tanh and silu pass their input's relative error on
      EXPECT_LE(worst, function_ulps) << f.name << " on " << name;
      EXPECT_EQ(y[count], -7.0f) << f.name << " on " << name << " writes past its lanes";
    }
  }
}

}  // namespace
}  // namespace coda::cpu
