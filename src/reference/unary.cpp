/// Elementwise functions of one value. Next to each stands the largest slope of the function over [x − e, x + e], from
/// its slope at x and the largest curvature: |f'| ≤ min(max|f'|, |f'(x)| + e·max|f''|).

#include <algorithm>
#include <numbers>

#include "reference/nodes.hpp"
#include "support/float_convert.hpp"
#include "unisono/error.hpp"

namespace unisono::reference {

namespace {

using std::abs, std::max, std::min;

template <class F>
void map(const Term& x, Term& out, F f) {
  double* v = out.values();
  double* e = out.bounds();
  const std::int64_t count = out.size();
  for (std::int64_t i = 0; i < count; ++i) {
    const V y = f(V{x.v[i], x.e[i]});
    v[i] = y.v;
    e[i] = x.e[i] < infinity ? y.e : infinity;
  }
}

double slope(double at_x, double e, double steepest, double curvature) {
  return e == 0 ? 0 : min(steepest, abs(at_x) + curvature * e) * e;
}

double sigmoid(double x) {
  const double z = std::exp(-abs(x));
  return x >= 0 ? 1 / (1 + z) : z / (1 + z);
}
// s·(1 − s) without cancellation
double sigmoid_slope(double x) {
  const double z = std::exp(-abs(x));
  return z / ((1 + z) * (1 + z));
}
double softplus(double x) { return std::isnan(x) ? x : max(x, 0.0) + std::log1p(std::exp(-abs(x))); }

V tanh(const Arithmetic& a, V x) {
  const double t = std::tanh(x.v);
  return a.function(t, min(slope(1 - t * t, x.e, 1, 0.7699), 1 + abs(t)));
}

V sigmoid(const Arithmetic& a, V x) {
  const double s = sigmoid(x.v);
  return a.function(s, min(slope(sigmoid_slope(x.v), x.e, 0.25, 0.09623), max(s, 1 - s)));
}

V erf(const Arithmetic& a, V x) {
  const double at_x = 2 * std::numbers::inv_sqrtpi * std::exp(-x.v * x.v);
  const double v = std::erf(x.v);
  return a.function(v, min(slope(at_x, x.e, 1.1284, 0.968), 1 + abs(v)));
}

// At −∞, x·sigmoid(x) and its kin tend to 0, while −∞·0 is NaN: no claim is made. Where the sigmoid underflows, its
// error by a.tiny is multiplied by x.
constexpr V limit_zero{0, infinity};

// x·sigmoid(x)
V silu(const Arithmetic& a, V x) {
  const double s = sigmoid(x.v);
  if (x.v == -infinity) return limit_zero;
  const double v = x.v * s;
  const double at_x = s + x.v * sigmoid_slope(x.v);
  return a.with_error(v, slope(at_x, x.e, 1.0999, 0.5), (a.f + a.u) * abs(v) + a.tiny * abs(x.v));
}

// x·tanh(softplus(x)), with t = eˣ: tanh(ln(1 + t)) = (t² + 2t)/(t² + 2t + 2)
V mish(const Arithmetic& a, V x) {
  if (x.v > 40) return a.with_error(x.v, slope(1, x.e, 1.0885, 0.65), (2 * a.f + a.u) * x.v);
  if (x.v == -infinity) return limit_zero;
  const double t = std::exp(x.v), n = t * (t + 2), w = n / (n + 2);
  const double v = x.v * w;
  const double at_x = w + x.v * 4 * t * (t + 1) / ((n + 2) * (n + 2));
  return a.with_error(v, slope(at_x, x.e, 1.0885, 0.65), (2 * a.f + a.u) * abs(v) + a.tiny * abs(x.v));
}

// x·Φ(x) = ½·x·erfc(−x/√2). Implementations compute ½·x·(1 + erf(x/√2)), which cancels for x < 0: the error is
// relative to x.
V gelu(const Arithmetic& a, V x) {
  if (x.v == -infinity) return limit_zero;
  const double phi = 0.5 * std::erfc(-x.v * std::numbers::sqrt2 / 2);
  const double density = std::exp(-0.5 * x.v * x.v) * std::numbers::inv_sqrtpi * std::numbers::sqrt2 / 2;
  const double v = x.v * phi;
  const double at_x = phi + (density == 0 ? 0 : x.v * density);
  return a.with_error(v, slope(at_x, x.e, 1.1291, 0.798), (a.f + 2 * a.u) * abs(x.v));
}

// ½·x·(1 + tanh(g)), g = √(2/π)·(x + 0.044715·x³); = x·sigmoid(2g)
V gelu_tanh(const Arithmetic& a, V x) {
  if (x.v == -infinity) return limit_zero;
  constexpr double c = 0.044715;
  const double k = std::sqrt(2 / std::numbers::pi);
  const double g2 = 2 * k * (x.v + c * x.v * x.v * x.v);
  const double s = sigmoid(g2);
  const double v = x.v * s;
  const double ds = sigmoid_slope(g2);
  const double at_x = s + (ds == 0 ? 0 : x.v * ds * 2 * k * (1 + 3 * c * x.v * x.v));
  return a.with_error(v, slope(at_x, x.e, 1.13, 0.82), (a.f + 4 * a.u) * abs(x.v));
}

V softplus(const Arithmetic& a, V x) {
  const double v = softplus(x.v);
  return a.with_error(v, slope(sigmoid(x.v), x.e, 1, 0.25), (2 * a.f + a.u) * v);
}

// −softplus(−x)
V logsigmoid(const Arithmetic& a, V x) {
  const V y = softplus(a, {-x.v, x.e});
  return {-y.v, y.e};
}

V relu(const Arithmetic& a, V x) {
  return a.unrounded(x.v > 0 || std::isnan(x.v) ? x.v : 0, std::isnan(x.v) ? x.e : min(x.e, max(x.v + x.e, 0.0)));
}

double clamped(double x, double lower, double upper) { return x < lower ? lower : x > upper ? upper : x; }

// The ends of the interval go through the clamp; where it binds, its limit's own rounding counts
V clamp(const Arithmetic& a, V x, double lower, double upper) {
  const double v = clamped(x.v, lower, upper), low = clamped(x.v - x.e, lower, upper),
               high = clamped(x.v + x.e, lower, upper);
  if (std::isnan(v)) return {v, x.e};
  double inherited = x.e == 0 ? 0 : max(high - v, v - low);
  if (low <= lower) inherited += a.representation(lower);
  if (high >= upper) inherited += a.representation(upper);
  return a.unrounded(v, inherited);
}

V leaky_relu(const Arithmetic& a, V x, double alpha) {
  const double steepest = x.v < -x.e ? 0 : max(1.0, abs(alpha)) * x.e;  // around 0
  if (x.v > 0) return a.unrounded(x.v, x.v > x.e ? x.e : steepest);
  return a.rounded(alpha * x.v, max(Arithmetic::product_error(x, {alpha, a.representation(alpha)}), steepest));
}

// x for x > 0, else α·(eˣ − 1), which implementations may compute as written: the error is relative to α
V elu(const Arithmetic& a, V x, double alpha) {
  const double scale = abs(alpha);
  if (x.v > x.e) return a.unrounded(x.v, x.e);
  const double steepest = x.v + x.e > 0 ? max(1.0, scale) : scale * std::exp(x.v + x.e);
  const double v = x.v > 0 ? x.v : alpha * std::expm1(x.v);
  return a.with_error(v, x.e == 0 ? 0 : steepest * x.e, (a.f + 2 * a.u) * scale);
}

// clamp(α·x + β, 0, 1)
V hardsigmoid(const Arithmetic& a, V x, double alpha, double beta) {
  const V product = a.mul(x, {alpha, a.representation(alpha)});
  return clamp(a, a.add(product, {beta, a.representation(beta)}), 0, 1);
}

// x·clamp(x + 3, 0, 6)/6: slopes 0, (2x + 3)/6 and 1, with jumps at −3 and 3. x/6 + ½ may stand for (x + 3)/6.
V hardswish(const Arithmetic& a, V x) {
  if (x.v == -infinity) return limit_zero;
  const double v = x.v <= -3 ? 0 : x.v >= 3 ? x.v : x.v * (x.v + 3) / 6;
  if (std::isnan(x.v)) return {x.v, x.e};
  double steepest = x.v <= -3 ? 0 : x.v >= 3 ? 1 : abs(2 * x.v + 3) / 6;
  if (abs(x.v - 3) <= x.e) steepest = 1.5;
  if (abs(x.v + 3) <= x.e) steepest = max(steepest, 0.5);
  const double inherited = x.e == 0 ? 0 : min(1.5, steepest + x.e / 3) * x.e;
  return a.with_error(v, inherited, x.v < -3.01 ? 0 : a.u * (4 * abs(v) + (x.v > 3.01 ? 0 : abs(x.v))));
}

// sin or cos, of slope `derivative`. Near the zeros the error is that of the range reduction: relative to 1.
V sine(const Arithmetic& a, V x, double v, double derivative) {
  return a.with_error(v, min(slope(derivative, x.e, 1, 1), 1 + abs(v)), a.f);
}

V sqrt(const Arithmetic& a, V x) {
  const double s = std::sqrt(x.v);
  double inherited = 0;  // √x̂ − √x = (x̂ − x)/(√x̂ + √x)
  if (x.e != 0) inherited = x.v >= x.e ? x.e / (s + std::sqrt(x.v - x.e)) : x.v < -x.e ? 0 : infinity;
  return a.function(s, inherited);
}

// ln(offset + x), offset 0 or 1
V log(const Arithmetic& a, V x, double offset) {
  const double argument = x.v + offset;
  double inherited = 0;
  if (x.e != 0) inherited = argument > x.e ? x.e / (argument - x.e) : argument < -x.e ? 0 : infinity;
  return a.function(offset == 0 ? std::log(x.v) : std::log1p(x.v), inherited);
}

}  // namespace

void evaluate_unary(const Node& node, const Term& input, Term& out, const ErrorModel& model) {
  const Arithmetic a(node.dtype, model);
  switch (node.op) {
#define REFERENCE(...) __VA_ARGS__
#define UNISONO_FUNCTION(NAME, ...)                           \
  case Op::NAME: {                                            \
    return map(input, out, [&](V x) { return __VA_ARGS__; }); \
  }
#define UNISONO_FUNCTION_1(NAME, P, P_FIELD, P_DEFAULT, ...)  \
  case Op::NAME: {                                            \
    const double p = node.attr.P_FIELD;                       \
    return map(input, out, [&](V x) { return __VA_ARGS__; }); \
  }
#define UNISONO_FUNCTION_2(NAME, P, P_FIELD, P_DEFAULT, Q, Q_FIELD, Q_DEFAULT, ...) \
  case Op::NAME: {                                                                  \
    const double p = node.attr.P_FIELD, q = node.attr.Q_FIELD;                      \
    return map(input, out, [&](V x) { return __VA_ARGS__; });                       \
  }
#define UNISONO_OPERATOR_1(NAME, ...)                         \
  case Op::NAME: {                                            \
    return map(input, out, [&](V x) { return __VA_ARGS__; }); \
  }
#define UNISONO_OPERATOR_2(NAME, ...) \
  case Op::NAME: {                    \
    break;                            \
  }
#define UNISONO_OPERATOR_3(NAME, ...) \
  case Op::NAME: {                    \
    break;                            \
  }
#define UNISONO_OPERATOR(NAME, CLASS, ARITY, ...) UNISONO_OPERATOR_##ARITY(NAME, __VA_ARGS__)
#define UNISONO_CONVERSION(NAME, ...)
#define UNISONO_OTHER(NAME) \
  case Op::NAME: {          \
    break;                  \
  }
#include "ir/operations.inc"
#undef UNISONO_OPERATOR_1
#undef UNISONO_OPERATOR_2
#undef UNISONO_OPERATOR_3
    case Op::cast: return evaluate_cast(input, out, model);
    case Op::one_hot: return evaluate_one_hot(input, out);
  }
  throw InternalError("the reference has no unary operation " + std::string(to_string(node.op)));
}

void evaluate_cast(const Term& x, Term& out, const ErrorModel& model) {
  const Arithmetic a(out.dtype, model);
  const bool rounds = (x.dtype == DType::f64 || x.dtype == DType::i32) && out.dtype != DType::f64;
  switch (out.dtype) {
    case DType::i32:
    case DType::boolean: return map(x, out, [&](V t) { return round_value(t, out.dtype); });
    default: return map(x, out, [&](V t) { return rounds ? a.rounded(t.v, t.e) : t; });
  }
}

void evaluate_one_hot(const Term& label, Term& out) {
  for (std::int64_t r = 0; r < out.rows; ++r) {
    for (std::int64_t c = 0; c < out.cols; ++c) {
      const double distance = abs(static_cast<double>(c) - label.v[r]);
      const bool open = label.e[r] == infinity || (label.e[r] != 0 && distance <= label.e[r]);
      out.values()[r * out.cols + c] = distance == 0 ? 1 : 0;
      out.bounds()[r * out.cols + c] = open ? 1 : 0;
    }
  }
}

namespace {
bool is_short(DType t) { return t == DType::bf16 || t == DType::f16 || t == DType::tf32; }
}  // namespace

V round_value(V x, DType t) {
  if (t == DType::boolean) {  // x ≠ 0
    const bool open = x.e == infinity || (x.e != 0 && abs(x.v) <= x.e);
    return {x.v != 0 ? 1.0 : 0.0, open ? 1.0 : 0.0};
  }
  const double v = support::round_to(x.v, t);
  if (x.e == 0 || std::isnan(x.v)) return {v, x.e};
  if (!(x.e < infinity)) return {v, infinity};
  const double low = support::round_to(x.v - x.e, t), high = support::round_to(x.v + x.e, t);
  if (low == v && high == v) return {v, 0};
  return {v, std::isfinite(low) && std::isfinite(high) ? max(high - v, v - low) : infinity};
}

void round_term(Term& x) {
  if (!is_short(x.dtype)) return;
  for (std::int64_t i = 0; i < x.size(); ++i) {
    const V y = round_value({x.v[i], x.e[i]}, x.dtype);
    x.values()[i] = y.v;
    x.bounds()[i] = y.e;
  }
}

}  // namespace unisono::reference
