#pragma once
// Elementwise functions in float64, by the names that the expressions of an emitted check call them.

#include <math.h>

#include <algorithm>

namespace unisono::emitted {

using V = double;

template <class T>
double splat(double x) {
  return x;
}
template <class T>
double truth(bool x) {
  return x ? 1 : 0;
}
inline double magnitude(double x) { return fabs(x); }
inline double square_root(double x) { return sqrt(x); }
inline double exponential(double x) { return exp(x); }
inline double exponential_m1(double x) { return expm1(x); }
inline double logarithm(double x) { return log(x); }
inline double logarithm1p(double x) { return log1p(x); }
inline double tangent_h(double x) { return tanh(x); }
inline double error_function(double x) { return erf(x); }
inline double sine(double x) { return sin(x); }
inline double cosine(double x) { return cos(x); }
inline double power(double x, double y) { return pow(x, y); }
inline double multiply_add(double x, double y, double z) { return fma(x, y, z); }
inline double larger(double x, double y) { return x > y || x != x ? x : y; }
inline double smaller(double x, double y) { return x < y || x != x ? x : y; }
inline double clamped(double x, double lower, double upper) {
  const double y = x < lower ? lower : x;  // NaN stays
  return y > upper ? upper : y;
}
inline double logistic(double x) { return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x)); }
inline double silu_of(double x) { return x == -INFINITY ? 0 : x * logistic(x); }
inline double soft_plus(double x) { return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)); }
inline double mish_of(double x) { return x == -INFINITY ? 0 : x * tanh(soft_plus(x)); }
inline double gelu_of(double x) { return x == -INFINITY ? 0 : 0.5 * x * erfc(-x * 0.70710678118654752440); }
inline double gelu_tanh_of(double x) {
  return x == -INFINITY ? 0 : x * logistic(2 * 0.79788456080286535588 * (x + 0.044715 * x * x * x));
}
inline double elu_of(double x, double alpha) { return x > 0 ? x : alpha * expm1(x); }
inline double leaky(double x, double slope) { return x > 0 ? x : slope * x; }
inline double hardswish_of(double x) { return x * clamped((x + 3) / 6, 0, 1); }

// 32-bit integers, which wrap
inline double wrapped(unsigned long long x) { return double(int(unsigned(x))); }
inline unsigned long long bits_of(double x) { return static_cast<unsigned long long>(static_cast<long long>(x)); }

}  // namespace unisono::emitted
