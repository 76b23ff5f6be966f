/// Elementwise operations of two and three values.

#include <algorithm>
#include <array>
#include <functional>

#include "reference/nodes.hpp"
#include "unisono/error.hpp"

namespace unisono::reference {

namespace {

using std::abs, std::max;

constexpr V truth(bool v, bool open) { return {v ? 1.0 : 0.0, open ? 1.0 : 0.0}; }

// A comparison is open, i.e. may come out either way, if the intervals of x and y touch
template <class Compare>
V compared(V x, V y, Compare compare) {
  const double reach = x.e + y.e;
  const bool open = reach != 0 && !(abs(x.v - y.v) > reach) && (reach == infinity || x.v - y.v == x.v - y.v);
  return truth(compare(x.v, y.v), open);
}

// NaN if either is
V larger(const Arithmetic& a, V x, V y) {
  if (std::isnan(x.v) || std::isnan(y.v)) return a.unrounded(x.v + y.v, x.e + y.e);
  const bool x_wins = x.v > y.v;
  const V win = x_wins ? x : y, lose = x_wins ? y : x;
  const bool apart = win.v - win.e > lose.v + lose.e;
  return a.unrounded(win.v, apart ? win.e : max(win.e, lose.e));
}

V smaller(const Arithmetic& a, V x, V y) {
  const V r = larger(a, {-x.v, x.e}, {-y.v, y.e});
  return {-r.v, r.e};
}

bool is_integer(double v) { return v == std::trunc(v); }

// x^y − x̂^ŷ for x > e_x: with D ≥ |ŷ·ln x̂ − y·ln x|, at most |x^y|·(e^D − 1)
double power_error_positive(V x, V y, double v) {
  const double dx = x.e == 0 ? 0 : x.e / (x.v - x.e);
  const double d = abs(y.v) * dx + (y.e == 0 ? 0 : y.e * (abs(std::log(x.v)) + dx));
  return d == 0 ? 0 : v * (d < 0.5 ? d * (1 + d) : std::expm1(d));
}

double power_error(V x, V y, double v) {
  if (x.e == 0 && y.e == 0) return 0;
  if (y.e == 0 && y.v == 0) return 0;  // 1, whatever x is
  if (x.v > x.e) return power_error_positive(x, y, v);
  if (y.e != 0) return infinity;
  if (x.v < -x.e) return is_integer(y.v) ? power_error_positive({-x.v, x.e}, y, abs(v)) : 0;  // surely NaN
  const bool defined = is_integer(y.v) || x.v - x.e >= 0;                                     // around 0
  if (y.v < 0 || !defined) return infinity;
  const double reach = abs(x.v) + x.e;
  return y.v >= 1 ? y.v * std::pow(reach, y.v - 1) * x.e : std::pow(reach, y.v);
}

V power(const Arithmetic& a, V x, V y) {
  const double v = std::pow(x.v, y.v);
  return a.function(v, power_error(x, y, v));
}

V selected(V condition, V x, V y) {
  const V taken = condition.v != 0 ? x : y, other = condition.v != 0 ? y : x;
  if (condition.e == 0) return taken;
  const double gap = taken.v == other.v ? 0 : abs(taken.v - other.v);
  constexpr double up = 1 + 0x1p-50;  // the sum is rounded, and the other value must lie inside
  return {taken.v, std::isnan(gap) ? infinity : max(taken.e, (gap + other.e) * up)};
}

V both(V x, V y) {
  const bool low = x.v - x.e > 0 && y.v - y.e > 0, high = x.v + x.e > 0 && y.v + y.e > 0;
  return truth(x.v != 0 && y.v != 0, low != high);
}

V either(V x, V y) {
  const V r = both({1 - x.v, x.e}, {1 - y.v, y.e});
  return {1 - r.v, r.e};
}

template <std::size_t N, class F>
void map(Inputs inputs, Term& out, const Space& space, F f) {
  std::array<const Term*, N> in;
  std::copy_n(inputs.begin(), N, in.begin());
  for_each_stretch<N>(out, in, space, [&](std::int64_t first, std::int64_t count, const std::array<Lane, N>& x) {
    double* v = out.values() + first;
    double* e = out.bounds() + first;
    for (std::int64_t i = 0; i < count; ++i) {
      const V r = f(x, i);
      v[i] = r.v;
      e[i] = std::isnan(r.e) ? infinity : r.e;
    }
  });
}

// Arithmetic over values with a possible claim only: f(x, y) unless a bound is infinite
template <class F>
void map2(Inputs inputs, Term& out, const Space& space, F f) {
  map<2>(inputs, out, space, [&](const std::array<Lane, 2>& x, std::int64_t i) { return f(x[0][i], x[1][i]); });
}

template <class F>
void map3(Inputs inputs, Term& out, const Space& space, F f) {
  map<3>(inputs, out, space,
         [&](const std::array<Lane, 3>& x, std::int64_t i) { return f(x[0][i], x[1][i], x[2][i]); });
}

}  // namespace

void evaluate_elementwise(Op op, Inputs in, Term& out, const Space& space, const ErrorModel& model) {
  const Arithmetic a(out.dtype, model);
  switch (op) {
#define REFERENCE(...) __VA_ARGS__
#define UNISONO_OPERATOR_1(NAME, ...) \
  case Op::NAME: {                    \
    break;                            \
  }
#define UNISONO_OPERATOR_2(NAME, ...)                                   \
  case Op::NAME: {                                                      \
    return map2(in, out, space, [&](V x, V y) { return __VA_ARGS__; }); \
  }
#define UNISONO_OPERATOR_3(NAME, ...)                                        \
  case Op::NAME: {                                                           \
    return map3(in, out, space, [&](V x, V y, V z) { return __VA_ARGS__; }); \
  }
#define UNISONO_OPERATOR(NAME, CLASS, ARITY, ...) UNISONO_OPERATOR_##ARITY(NAME, __VA_ARGS__)
#define UNISONO_ELEMENTWISE(NAME, ...) \
  case Op::NAME: {                     \
    break;                             \
  }
#define UNISONO_OTHER(NAME) \
  case Op::NAME: {          \
    break;                  \
  }
#include "ir/operations.inc"
#undef UNISONO_OPERATOR_1
#undef UNISONO_OPERATOR_2
#undef UNISONO_OPERATOR_3
  }
  throw InternalError("the reference has no elementwise operation " + std::string(to_string(op)));
}

}  // namespace unisono::reference
