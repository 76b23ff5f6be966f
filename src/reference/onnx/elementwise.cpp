/// Elementwise operators as ONNX defines them.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "reference/network/tensors.hpp"
#include "reference/onnx/definitions.hpp"
#include "support/float_convert.hpp"

namespace unisono::float64 {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// A function of one element whose result is off by `roundings` units of its size.
template <double (*f)(double), int roundings>
void function(Call& call) {
  const Tensor64& x = call.in(0);
  const double u = roundings * roundoff(x.dtype);
  call.result(each({&x}, x.dtype, [u](const double* e) {
    const double y = f(e[0]);
    return Number64{y, u * std::abs(y)};
  }));
}

// A function that is a sum of terms of about the size of x and of its result: what is near 0 has an absolute error.
template <class F>
void activation(Call& call, const F& f) {
  const Tensor64& x = call.in(0);
  const double u = roundoff(x.dtype);
  call.result(each({&x}, x.dtype, [&](const double* e) {
    const double y = f(e[0]);
    return Number64{y, u * (4 * std::abs(y) + 2 * std::abs(e[0]) * (std::abs(y) < std::abs(e[0]) ? 1 : 0))};
  }));
}

double logistic(double x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }
double softplus(double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }
double reciprocal(double x) { return 1 / x; }
double sign(double x) { return std::isnan(x) ? x : static_cast<double>((x > 0) - (x < 0)); }
double rectified(double x) { return x < 0 ? 0 : x; }
double near_even(double x) { return std::nearbyint(x); }
double softsign(double x) { return x / (1 + std::abs(x)); }

template <double (*f)(double)>
void exact(Call& call) {
  const Tensor64& x = call.in(0);
  call.result(each({&x}, x.dtype, [](const double* e) { return Number64{f(e[0])}; }));
}

// The same of a function that jumps
template <double (*f)(double), Decision (*decision)(double)>
void jumping(Call& call) {
  const Tensor64& x = call.in(0);
  call.result(each({&x}, x.dtype, [](const double* e) { return Number64{f(e[0]), 0, decision(e[0])}; }));
}

void define_sign(Call& call) {
  const Tensor64& x = call.in(0);
  const bool floats = is_float(x.dtype);
  call.result(each({&x}, x.dtype, [floats](const double* e) {
    const double y = sign(e[0]);
    return Number64{y, 0, floats ? signed_as(e[0], y) : Decision{}};
  }));
}

void define_neg(Call& call) {
  const Tensor64& x = call.in(0);
  call.result(each({&x}, x.dtype, [&](const double* e) {
    return Number64{is_float(x.dtype) ? -e[0] : as_integer(0 - e[0], x.dtype)};
  }));
}
void define_abs(Call& call) {
  const Tensor64& x = call.in(0);
  call.result(each({&x}, x.dtype, [&](const double* e) {
    return Number64{is_float(x.dtype) ? std::abs(e[0]) : as_integer(std::abs(e[0]), x.dtype)};
  }));
}

void define_elu(Call& call) {
  const double alpha = call.real("alpha", 1);
  activation(call, [=](double x) { return x < 0 ? alpha * std::expm1(x) : x; });
}

// max(0, x) + min(0, α·(exp(x/α) − 1))
void define_celu(Call& call) {
  const Tensor64& x = call.in(0);
  const double alpha = call.real("alpha", 1), u = roundoff(x.dtype);
  call.result(each({&x}, x.dtype, [&](const double* e) {
    const double z = e[0] / alpha, low = std::min(0.0, alpha * std::expm1(z));
    const double y = std::isnan(e[0]) ? e[0] : std::max(0.0, e[0]) + low;
    return Number64{y, u * ((4 + 2 * std::abs(z)) * std::abs(y) + 2 * std::abs(low))};
  }));
}

void define_selu(Call& call) {
  const double alpha = call.real("alpha", 1.67326319217681884765625);
  const double gamma = call.real("gamma", 1.05070102214813232421875);
  activation(call, [=](double x) { return x > 0 ? gamma * x : gamma * (alpha * std::expm1(x)); });
}

void define_leaky_relu(Call& call) {
  const double alpha = call.real("alpha", 0.01F);
  activation(call, [=](double x) { return x < 0 ? alpha * x : x; });
}

void define_prelu(Call& call) {
  const Tensor64& x = call.in(0);
  const bool floats = is_float(x.dtype);
  call.result(each({&x, &call.in(1)}, x.dtype, [&](const double* e) {
    const double y = e[0] < 0 ? e[1] * e[0] : e[0];
    return Number64{floats ? y : as_integer(y, x.dtype), e[0] < 0 ? roundoff(x.dtype) * std::abs(y) : 0};
  }));
}

void define_hard_sigmoid(Call& call) {
  const double alpha = call.real("alpha", 0.2F), beta = call.real("beta", 0.5F);
  activation(call, [=](double x) { return std::isnan(x) ? x : std::max(0.0, std::min(1.0, alpha * x + beta)); });
}

double hard_swish(double x) { return std::isnan(x) ? x : x * std::max(0.0, std::min(1.0, x / 6 + 0.5)); }

double phi(double x) { return 0.5 * std::erfc(-x * std::numbers::sqrt2 / 2); }
void define_gelu(Call& call) {
  const bool tanh = call.text("approximate", "none") == "tanh";
  activation(call, [=](double x) {
    if (!tanh) return x * phi(x);
    const double inner = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
    return 0.5 * x * (1 + std::tanh(inner));
  });
}

void define_mish(Call& call) {
  activation(call, [](double x) { return x * std::tanh(softplus(x)); });
}
void define_softplus(Call& call) {
  const Tensor64& x = call.in(0);
  call.result(each({&x}, x.dtype, [&](const double* e) {
    const double y = softplus(e[0]);
    return Number64{y, roundoff(x.dtype) * (4 * y + 2)};  // log(1 + exp x) rounds near 1
  }));
}
void define_softsign(Call& call) { activation(call, softsign); }
void define_hard_swish(Call& call) { activation(call, hard_swish); }
void define_sigmoid(Call& call) { activation(call, logistic); }

// x·σ(αx); its function's body casts α to the type of x
void define_swish(Call& call) {
  const double alpha = support::round_to(call.real("alpha", 1), call.value(0).declared);
  activation(call, [=](double x) { return x * logistic(alpha * x); });
}

void define_thresholded_relu(Call& call) {
  const Tensor64& x = call.in(0);
  const double alpha = call.real("alpha", 1);
  call.result(each({&x}, x.dtype, [=](const double* e) { return Number64{e[0] > alpha ? e[0] : 0}; }));
}

void define_shrink(Call& call) {
  const Tensor64& x = call.in(0);
  const double lambd = call.real("lambd", 0.5), bias = call.real("bias", 0), u = roundoff(x.dtype);
  const auto held = [&](double y) { return is_float(x.dtype) ? y : as_integer(std::trunc(y), x.dtype); };
  call.result(each({&x}, x.dtype, [&](const double* e) {
    const double y = e[0] < -lambd ? e[0] + bias : e[0] > lambd ? e[0] - bias : 0;
    return Number64{held(y), u * std::abs(y)};
  }));
}

void define_is_nan(Call& call) {
  call.result(
      each({&call.in(0)}, DType::boolean, [](const double* e) { return Number64{std::isnan(e[0]) ? 1.0 : 0}; }));
}

void define_is_inf(Call& call) {
  const bool above = call.integer("detect_positive", 1) != 0, below = call.integer("detect_negative", 1) != 0;
  call.result(each({&call.in(0)}, DType::boolean, [=](const double* e) {
    return Number64{(above && e[0] == infinity) || (below && e[0] == -infinity) ? 1.0 : 0};
  }));
}

void define_relu(Call& call) { exact<rectified>(call); }

void define_clip(Call& call) {
  const Tensor64& x = call.in(0);
  const double low = call.has(1) ? call.in(1).value.at(0) : call.real("min", -infinity);
  const double high = call.has(2) ? call.in(2).value.at(0) : call.real("max", infinity);
  call.result(each({&x}, x.dtype, [=](const double* e) {  // a NaN stays
    const double y = e[0] < low ? low : e[0];
    return Number64{y > high ? high : y};
  }));
}

constexpr OnnxDefinition elementwise_table[] = {{"Abs", define_abs},
                                                {"Acos", function<std::acos, 4>},
                                                {"Acosh", function<std::acosh, 4>},
                                                {"Asin", function<std::asin, 4>},
                                                {"Asinh", function<std::asinh, 4>},
                                                {"Atan", function<std::atan, 4>},
                                                {"Atanh", function<std::atanh, 4>},
                                                {"Ceil", jumping<std::ceil, ceiled>},
                                                {"Celu", define_celu},
                                                {"Clip", define_clip},
                                                {"Cos", function<std::cos, 4>},
                                                {"Cosh", function<std::cosh, 4>},
                                                {"Elu", define_elu},
                                                {"Erf", function<std::erf, 4>},
                                                {"Exp", function<std::exp, 4>},
                                                {"Floor", jumping<std::floor, floored>},
                                                {"Gelu", define_gelu},
                                                {"HardSigmoid", define_hard_sigmoid},
                                                {"HardSwish", define_hard_swish},
                                                {"IsInf", define_is_inf},
                                                {"IsNaN", define_is_nan},
                                                {"LeakyRelu", define_leaky_relu},
                                                {"Log", function<std::log, 4>},
                                                {"Mish", define_mish},
                                                {"Neg", define_neg},
                                                {"PRelu", define_prelu},
                                                {"Reciprocal", function<reciprocal, 2>},
                                                {"Relu", define_relu},
                                                {"Round", jumping<near_even, rounded>},
                                                {"Selu", define_selu},
                                                {"Shrink", define_shrink},
                                                {"Sigmoid", define_sigmoid},
                                                {"Sign", define_sign},
                                                {"Sin", function<std::sin, 4>},
                                                {"Sinh", function<std::sinh, 4>},
                                                {"Softplus", define_softplus},
                                                {"Softsign", define_softsign},
                                                {"Sqrt", function<std::sqrt, 1>},
                                                {"Swish", define_swish},
                                                {"Tan", function<std::tan, 4>},
                                                {"Tanh", function<std::tanh, 4>},
                                                {"ThresholdedRelu", define_thresholded_relu}};

}  // namespace

std::span<const OnnxDefinition> elementwise_definitions() { return elementwise_table; }

}  // namespace unisono::float64
