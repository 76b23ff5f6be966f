/// Elementwise operators and reductions on tensors of any type, see reference_tensors.hpp.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "command/reference_tensors.hpp"
#include "support/float_convert.hpp"
#include "unisono/error.hpp"

namespace unisono::command {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

bool is_signed_integer(DType t) { return t == DType::i8 || t == DType::i16 || t == DType::i32 || t == DType::i64; }

/// Smallest and largest value of an integer type.
std::pair<double, double> range(DType t) {
  const double values = std::ldexp(1.0, static_cast<int>(8 * size_of(t)));
  return is_signed_integer(t) ? std::pair(-values / 2, values / 2 - 1) : std::pair(0.0, values - 1);
}

/// An integer result, exact in f64, as its type wraps it.
double wrapped(double x, DType t) {
  const auto [low, high] = range(t);
  if (std::abs(x) <= 0x1p53 && x >= low && x <= high) return x;
  if (std::abs(x) > 0x1p53 || size_of(t) == 8)
    throw Unsupported(
        fmt::format("an integer of {} is about {:.3g}, which the float64 reference cannot hold; run without --check",
                    to_string(t), x));
  const double values = high - low + 1;
  double y = std::fmod(x - low, values);
  if (y < 0) y += values;
  return y + low;
}

/// Where all bits are shifted out, 0 or what the sign leaves.
double shifted(double x, double y, DType t) {
  const double width = static_cast<double>(8 * size_of(t));
  const bool left = y >= 0;
  if (std::abs(y) >= width) return left || x >= 0 ? 0 : -1;
  return left ? wrapped(std::ldexp(x, static_cast<int>(y)), t) : std::floor(std::ldexp(x, static_cast<int>(y)));
}

/// An operator on the bits of integers, which are exact.
double bitwise(MapOp op, double x, double y, DType t) {
  const auto a = static_cast<std::int64_t>(x), b = static_cast<std::int64_t>(y);
  switch (op) {
    case MapOp::bit_and: return wrapped(static_cast<double>(a & b), t);
    case MapOp::bit_or: return wrapped(static_cast<double>(a | b), t);
    case MapOp::bit_xor: return wrapped(static_cast<double>(a ^ b), t);
    default: return wrapped(is_signed_integer(t) ? -x - 1 : range(t).second - x, t);
  }
}

double quotient(double x, double y) {
  if (y == 0) throw UserError("integers are divided by 0");
  return std::trunc(x / y);  // exact where both are below 2^53
}

double modulo(double x, double y, bool integers) {
  if (integers && y == 0) throw UserError("integers are divided by 0");
  const double r = std::fmod(x, y);
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

double power(double x, double y, bool integers) {
  if (!integers || y >= 0) return std::pow(x, y);
  return std::trunc(1 / std::pow(x, -y));
}

double lesser(double x, double y) { return std::isnan(x) || std::isnan(y) ? x + y : std::min(x, y); }
double greater(double x, double y) { return std::isnan(x) || std::isnan(y) ? x + y : std::max(x, y); }

double cast(double x, DType from, DType to) {
  if (to == DType::boolean) return x != 0 ? 1 : 0;
  if (is_float(to)) return to == DType::f64 ? x : support::round_to(x, to);
  if (!is_float(from)) return wrapped(x, to);
  const auto [low, high] = range(to);
  if (size_of(to) == 8 && std::abs(x) >= 0x1p63) wrapped(x, to);  // refuses: the ends have no f64
  return std::isnan(x) ? 0 : std::clamp(std::trunc(x), low, high);
}

double map(const operators::Map& o, const double* x, DType t) {
  const bool integers = !is_float(t);
  const auto number = [&](double y) { return integers ? wrapped(y, t) : y; };
  switch (o.op) {
    case MapOp::add: return number(x[0] + x[1]);
    case MapOp::sub: return number(x[0] - x[1]);
    case MapOp::mul: return number(x[0] * x[1]);
    case MapOp::div: return integers ? wrapped(quotient(x[0], x[1]), t) : x[0] / x[1];
    case MapOp::pow: return number(power(x[0], x[1], integers));
    case MapOp::min: return lesser(x[0], x[1]);
    case MapOp::max: return greater(x[0], x[1]);
    case MapOp::mod: return modulo(x[0], x[1], integers);
    case MapOp::fmod: return integers ? x[0] - x[1] * quotient(x[0], x[1]) : std::fmod(x[0], x[1]);
    case MapOp::equal: return x[0] == x[1];
    case MapOp::less: return x[0] < x[1];
    case MapOp::less_equal: return x[0] <= x[1];
    case MapOp::greater: return x[0] > x[1];
    case MapOp::greater_equal: return x[0] >= x[1];
    case MapOp::logical_and: return x[0] != 0 && x[1] != 0;
    case MapOp::logical_or: return x[0] != 0 || x[1] != 0;
    case MapOp::logical_xor: return (x[0] != 0) != (x[1] != 0);
    case MapOp::logical_not: return x[0] == 0;
    case MapOp::neg: return number(-x[0]);
    case MapOp::abs: return number(std::abs(x[0]));
    case MapOp::sign: return std::isnan(x[0]) ? x[0] : static_cast<double>((x[0] > 0) - (x[0] < 0));
    case MapOp::floor: return std::floor(x[0]);
    case MapOp::ceil: return std::ceil(x[0]);
    case MapOp::round: return std::nearbyint(x[0]);
    case MapOp::sqrt: return std::sqrt(x[0]);
    case MapOp::exp: return std::exp(x[0]);
    case MapOp::log: return std::log(x[0]);
    case MapOp::sin: return std::sin(x[0]);
    case MapOp::cos: return std::cos(x[0]);
    case MapOp::tan: return std::tan(x[0]);
    case MapOp::asin: return std::asin(x[0]);
    case MapOp::acos: return std::acos(x[0]);
    case MapOp::atan: return std::atan(x[0]);
    case MapOp::sinh: return std::sinh(x[0]);
    case MapOp::cosh: return std::cosh(x[0]);
    case MapOp::tanh: return std::tanh(x[0]);
    case MapOp::asinh: return std::asinh(x[0]);
    case MapOp::acosh: return std::acosh(x[0]);
    case MapOp::atanh: return std::atanh(x[0]);
    case MapOp::erf: return std::erf(x[0]);
    case MapOp::bit_and:
    case MapOp::bit_or:
    case MapOp::bit_xor:
    case MapOp::bit_not: return bitwise(o.op, x[0], x[1], t);
    case MapOp::shift_left: return shifted(x[0], x[1] < 0 ? 64 : x[1], t);
    case MapOp::shift_right: return shifted(x[0], x[1] < 0 ? -64 : -x[1], t);
    case MapOp::select: return x[0] != 0 ? x[1] : x[2];
    case MapOp::cast: return cast(x[0], t, o.to);
  }
  throw InternalError("unknown MapOp");
}

/// Roundings that a float implementation adds to |y|, in units of its roundoff.
double roundings(const operators::Map& o, DType from) {
  switch (o.op) {
    case MapOp::add:
    case MapOp::sub:
    case MapOp::mul:
    case MapOp::div:
    case MapOp::sqrt: return 1;
    case MapOp::mod: return 2;
    case MapOp::pow:
    case MapOp::exp:
    case MapOp::log:
    case MapOp::sin:
    case MapOp::cos:
    case MapOp::tan:
    case MapOp::asin:
    case MapOp::acos:
    case MapOp::atan:
    case MapOp::sinh:
    case MapOp::cosh:
    case MapOp::tanh:
    case MapOp::asinh:
    case MapOp::acosh:
    case MapOp::atanh:
    case MapOp::erf: return 4;  // of a library, which may be off by more than half a unit
    case MapOp::cast: return is_float(from) && unit_roundoff(o.to) > unit_roundoff(from) ? 1 : 0;
    default: return 0;
  }
}

}  // namespace

double as_integer(double x, DType t) { return wrapped(x, t); }

Tensor64 evaluate_tensors(const operators::Map& o, const ReferenceInputs& in) {
  const DType t = in[o.op == MapOp::select ? 1 : 0]->dtype;
  const Extents64 shape = broadcast_shape(in);
  std::vector<std::vector<double>> x;
  for (const Tensor64* i : in) x.push_back(expanded(*i, shape));
  Tensor64 y = empty_tensor(shape);
  const DType result = o.op == MapOp::cast ? o.to : t;
  const double relative = is_float(result) ? roundings(o, t) * unit_roundoff(result) : 0;
  for (std::size_t i = 0; i < y.value.size(); ++i) {
    double operands[3] = {0, 0, 0};
    for (std::size_t k = 0; k < x.size(); ++k) operands[k] = x[k][i];
    y.value[i] = map(o, operands, t);
    y.bound[i] = relative * std::abs(y.value[i]);
  }
  return y;
}

namespace {

double start_of(ReduceOp op, DType t) {
  if (op == ReduceOp::prod) return 1;
  if (op != ReduceOp::max && op != ReduceOp::min) return 0;
  if (is_float(t)) return op == ReduceOp::max ? -infinity : infinity;
  const auto [low, high] = range(t);
  return op == ReduceOp::max ? low : high;
}

double step(ReduceOp op, double sum, double x) {
  switch (op) {
    case ReduceOp::prod: return sum * x;
    case ReduceOp::max: return greater(sum, x);
    case ReduceOp::min: return lesser(sum, x);
    case ReduceOp::l1: return sum + std::abs(x);
    case ReduceOp::l2:
    case ReduceOp::sum_square: return sum + x * x;
    default: return sum + x;
  }
}

std::vector<bool> reduced_axes(const std::vector<int>& axes, std::size_t rank) {
  std::vector<bool> reduced(rank, axes.empty());
  for (const int axis : axes) reduced[static_cast<std::size_t>(axis < 0 ? axis + static_cast<int>(rank) : axis)] = true;
  return reduced;
}

/// The elements of x that make each element of a reduced tensor, in order.
struct Groups {
  Extents64 shape;                           ///< of the result
  std::vector<std::vector<std::size_t>> of;  ///< places in x
};

Groups group(const Extents64& shape, const std::vector<bool>& reduced, bool keep) {
  Groups g;
  Extents64 kept;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    kept.push_back(reduced[d] ? 1 : shape[d]);
    if (!reduced[d] || keep) g.shape.push_back(kept.back());
  }
  g.of.resize(static_cast<std::size_t>(element_count(kept)));
  std::size_t from = 0;
  for_indices(shape, [&](Extents64 index) {
    for (std::size_t d = 0; d < index.size(); ++d) index[d] = reduced[d] ? 0 : index[d];
    g.of[place(kept, index)].push_back(from++);
  });
  return g;
}

}  // namespace

Tensor64 evaluate_tensors(const operators::Reduce& o, const ReferenceInputs& in) {
  const Tensor64& x = *in[0];
  const Groups g = group(x.shape, reduced_axes(o.axes, x.shape.size()), o.keep);
  Tensor64 y = empty_tensor(g.shape);
  const bool exact = o.op == ReduceOp::max || o.op == ReduceOp::min || !is_float(x.dtype);
  const double u = unit_roundoff(x.dtype);
  for (std::size_t i = 0; i < y.value.size(); ++i) {
    double sum = start_of(o.op, x.dtype), sizes = 0, top = -infinity;
    const auto count = static_cast<double>(g.of[i].size());
    for (const std::size_t at : g.of[i]) top = greater(top, x.value[at]);
    const bool shifted = o.op == ReduceOp::log_sum_exp && std::isfinite(top);
    for (const std::size_t at : g.of[i]) {
      const double term = o.op == ReduceOp::log_sum_exp ? std::exp(x.value[at] - (shifted ? top : 0)) : x.value[at];
      sum = step(o.op, sum, term);
      sizes += std::abs(step(o.op, 0, term));
      if (!is_float(x.dtype)) sum = wrapped(sum, x.dtype);
    }
    // a sum of n terms: √n roundings of the sum of their sizes, as of contractions
    double bound = u * std::sqrt(count) * sizes;
    double& value = y.value[i] = sum;
    if (o.op == ReduceOp::prod) bound = u * count * std::abs(sum);
    if (o.op == ReduceOp::mean) value = sum / count, bound /= count;
    if (o.op == ReduceOp::l2) value = std::sqrt(sum), bound = sum > 0 ? bound / (2 * value) : 0;
    if (o.op == ReduceOp::log_sum || o.op == ReduceOp::log_sum_exp) {
      value = std::log(sum) + (shifted ? top : 0);
      bound = sum > 0 ? bound / sum : 0;
    }
    y.bound[i] = exact ? 0 : bound + 2 * u * std::abs(value);
  }
  return y;
}

Tensor64 evaluate_tensors(const operators::ArgReduce& o, const ReferenceInputs& in) {
  const Tensor64& x = *in[0];
  const Groups g = group(x.shape, reduced_axes({o.axis}, x.shape.size()), o.keep);
  Tensor64 y = empty_tensor(g.shape);
  for (std::size_t i = 0; i < y.value.size(); ++i) {
    const auto& all = g.of[i];
    std::size_t best = 0;
    for (std::size_t k = 1; k < all.size(); ++k) {
      const double a = x.value[all[k]], b = x.value[all[best]];
      if ((o.smallest ? a < b : a > b) || (o.last && a == b)) best = k;
    }
    y.value[i] = static_cast<double>(best);
  }
  return y;
}

}  // namespace unisono::command
