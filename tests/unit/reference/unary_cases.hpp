#pragma once
/// The unary operations three times over: in the graph, as a formula in long double, and as plain f32 code such as an
/// implementation might hold.

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "unisono/builder.hpp"

namespace unisono::reference::test {

struct UnaryCase {
  std::string name;
  std::function<Value(Value)> graph;
  std::function<long double(long double)> formula;
  std::function<float(float)> single;
};

inline std::vector<UnaryCase> unary_cases() {
  using L = long double;
  static const L pi = std::acos(L(-1));
  const auto logistic = [](L x) -> L { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); };
  const auto soft = [](L x) -> L { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); };
  const auto soft_f = [](float x) { return std::max(x, 0.f) + std::log1p(std::exp(-std::abs(x))); };
  const auto clip = [](auto x, auto low, auto high) { return x < low ? low : x > high ? high : x; };
  return {
      {"neg", [](Value x) { return -x; }, [](L x) { return -x; }, [](float x) { return -x; }},
      {"abs", [](Value x) { return abs(x); }, [](L x) { return std::abs(x); }, [](float x) { return std::abs(x); }},
      {"sqrt", [](Value x) { return sqrt(x); }, [](L x) { return std::sqrt(x); }, [](float x) { return std::sqrt(x); }},
      {"rsqrt", [](Value x) { return rsqrt(x); }, [](L x) { return 1 / std::sqrt(x); },
       [](float x) { return 1 / std::sqrt(x); }},
      {"reciprocal", [](Value x) { return reciprocal(x); }, [](L x) { return 1 / x; }, [](float x) { return 1 / x; }},
      {"square", [](Value x) { return square(x); }, [](L x) { return x * x; }, [](float x) { return x * x; }},
      {"exp", [](Value x) { return exp(x); }, [](L x) { return std::exp(x); }, [](float x) { return std::exp(x); }},
      {"log", [](Value x) { return log(x); }, [](L x) { return std::log(x); }, [](float x) { return std::log(x); }},
      {"log1p", [](Value x) { return log1p(x); }, [](L x) { return std::log1p(x); },
       [](float x) { return std::log1p(x); }},
      {"tanh", [](Value x) { return tanh(x); }, [](L x) { return std::tanh(x); }, [](float x) { return std::tanh(x); }},
      {"erf", [](Value x) { return erf(x); }, [](L x) { return std::erf(x); }, [](float x) { return std::erf(x); }},
      {"sin", [](Value x) { return sin(x); }, [](L x) { return std::sin(x); }, [](float x) { return std::sin(x); }},
      {"cos", [](Value x) { return cos(x); }, [](L x) { return std::cos(x); }, [](float x) { return std::cos(x); }},
      {"sigmoid", [](Value x) { return sigmoid(x); }, logistic, [](float x) { return 1 / (1 + std::exp(-x)); }},
      {"relu", [](Value x) { return relu(x); }, [](L x) { return x > 0 ? x : 0; },
       [](float x) { return x > 0 ? x : 0; }},
      {"relu6", [](Value x) { return relu6(x); }, [=](L x) { return clip(x, L(0), L(6)); },
       [=](float x) { return clip(x, 0.f, 6.f); }},
      {"leaky_relu", [](Value x) { return leaky_relu(x, 0.1); }, [](L x) { return x > 0 ? x : L(0.1) * x; },
       [](float x) { return x > 0 ? x : 0.1f * x; }},
      {"steep leaky_relu", [](Value x) { return leaky_relu(x, -2.3); }, [](L x) { return x > 0 ? x : L(-2.3) * x; },
       [](float x) { return x > 0 ? x : -2.3f * x; }},
      {"elu", [](Value x) { return elu(x, 1.3); }, [](L x) { return x > 0 ? x : L(1.3) * std::expm1(x); },
       [](float x) { return x > 0 ? x : 1.3f * (std::exp(x) - 1); }},
      {"silu", [](Value x) { return silu(x); }, [=](L x) { return x * logistic(x); },
       [](float x) { return x / (1 + std::exp(-x)); }},
      {"mish", [](Value x) { return mish(x); }, [=](L x) { return x * std::tanh(soft(x)); },
       [=](float x) { return x * std::tanh(soft_f(x)); }},
      {"gelu", [](Value x) { return gelu(x); }, [](L x) { return x / 2 * std::erfc(-x / std::sqrt(L(2))); },
       [](float x) { return 0.5f * x * (1 + std::erf(x * 0.70710678f)); }},
      {"gelu_tanh", [](Value x) { return gelu_tanh(x); },
       // 1 + tanh(g) = 2/(1 + exp(−2g))
       [](L x) { return x / (1 + std::exp(-2 * std::sqrt(2 / pi) * (x + L(0.044715) * x * x * x))); },
       [](float x) { return 0.5f * x * (1 + std::tanh(0.79788456f * (x + 0.044715f * x * x * x))); }},
      {"hardsigmoid", [](Value x) { return hardsigmoid(x, 0.2, 0.4); },
       [=](L x) { return clip(L(0.2) * x + L(0.4), L(0), L(1)); },
       [=](float x) { return clip(0.2f * x + 0.4f, 0.f, 1.f); }},
      {"hardswish", [](Value x) { return hardswish(x); }, [=](L x) { return x * clip(x + 3, L(0), L(6)) / 6; },
       [=](float x) { return x * clip(x + 3, 0.f, 6.f) * (1 / 6.f); }},
      {"softplus", [](Value x) { return softplus(x); }, soft, soft_f},
      {"logsigmoid", [](Value x) { return logsigmoid(x); }, [=](L x) { return -soft(-x); },
       [=](float x) { return -soft_f(-x); }},
      {"clamp", [](Value x) { return clamp(x, -0.7, 1.1); }, [=](L x) { return clip(x, L(-0.7), L(1.1)); },
       [=](float x) { return clip(x, -0.7f, 1.1f); }},
  };
}

}  // namespace unisono::reference::test
