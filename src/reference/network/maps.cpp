/// Elementwise operators and reductions on tensors of any type, see tensors.hpp.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "reference/network/decision.hpp"
#include "reference/network/tensors.hpp"
#include "support/float_convert.hpp"
#include "unisono/error.hpp"

namespace unisono::float64 {
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
template <class F>
double bitwise(double x, double y, DType t, F f) {
  return wrapped(static_cast<double>(f(static_cast<std::int64_t>(x), static_cast<std::int64_t>(y))), t);
}

double quotient(double x, double y) {
  if (y == 0) throw UserError("integers are divided by 0");
  return std::trunc(x / y);  // exact where both are below 2^53
}

double modulo(double x, double y, bool integers) {
  if (integers && y == 0) throw UserError("integers are divided by 0");
  const double r = std::fmod(x, y);
  if (r == 0) return integers ? 0 : std::copysign(r, y);
  return (r < 0) != (y < 0) ? r + y : r;
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

double map(const operators::Map& o, const double* operands, DType t) {
  const bool integers = !is_float(t);
  const auto number = [&](double y) { return integers ? wrapped(y, t) : y; };
  const double x = operands[0], y = operands[1], z = operands[2];
  const DType to = o.to;
  switch (o.op) {
#define UNISONO_MAP(NAME, OPERANDS, TYPES, CPU, CUDA, REFERENCE, ROUNDINGS, ...) \
  case MapOp::NAME: {                                                            \
    return REFERENCE;                                                            \
  }
#define UNISONO_MAP_OTHER(NAME, OPERANDS, TYPES, REFERENCE, ROUNDINGS, ...) \
  case MapOp::NAME: {                                                       \
    return REFERENCE;                                                       \
  }
#include "unisono/network/maps.def"
  }
  throw InternalError("unknown MapOp");
}

/// Roundings that a float implementation adds to |y|, in units of its roundoff.
double roundings(const operators::Map& o, DType t) {
  const DType to = o.to;
  switch (o.op) {
#define UNISONO_MAP(NAME, OPERANDS, TYPES, CPU, CUDA, REFERENCE, ROUNDINGS, ...) \
  case MapOp::NAME: {                                                            \
    return ROUNDINGS;                                                            \
  }
#define UNISONO_MAP_OTHER(NAME, OPERANDS, TYPES, REFERENCE, ROUNDINGS, ...) \
  case MapOp::NAME: {                                                       \
    return ROUNDINGS;                                                       \
  }
#include "unisono/network/maps.def"
  }
  throw InternalError("unknown MapOp");
}

/// Where the result jumps, for operands that are floats.
Decision decision(const operators::Map& o, double x, double y, double result) {
  switch (o.op) {
    case MapOp::equal:
    case MapOp::less:
    case MapOp::less_equal:
    case MapOp::greater:
    case MapOp::greater_equal: return compared(x, y, result != 0);
    case MapOp::sign: return signed_as(x, result);
    case MapOp::floor: return floored(x);
    case MapOp::ceil: return ceiled(x);
    case MapOp::round: return rounded(x);
    case MapOp::cast: return o.to == DType::boolean ? signed_as(x, result) : is_float(o.to) ? Decision{} : truncated(x);
    default: return {};
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
    if (is_float(t)) decide(y, i, decision(o, operands[0], operands[1], y.value[i]));
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
  Extents64 shape;                           ///< shape of the result
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

namespace {

/// How far f(sum) moves where the sum does by its bound; f rises.
template <class F>
double moved_by(double sum, double bound, F f) {
  if (bound == 0) return 0;
  const double value = f(sum), low = f(sum - bound), high = f(sum + bound);
  const double moved = std::max(value - low, high - value);
  return std::isnan(moved) ? no_claim : moved;
}

/// A product, whose factors are multiplied in any order: none of its bounds holds if an order leaves f32's range.
double product_bound(double u, const std::vector<double>& factors, double value, DType t) {
  double large = 1, small = 1;
  for (const double x : factors) (std::abs(x) > 1 ? large : small) *= std::abs(x);
  const bool flushes = t != DType::f64 && small < f32_underflow && value != 0;
  const double bound = u * static_cast<double>(factors.size()) * std::abs(value);
  return flushes && large > 1 ? no_claim : bound_within(bound, value, large, t);
}

struct Sum {
  double value, bound;
};

/// The terms folded: a sum of n terms is off by √n roundings of the sum of their sizes, as those of contractions are.
Sum folded(ReduceOp op, const std::vector<double>& terms, DType t) {
  Sum s{start_of(op, t), 0};
  double sizes = 0;
  for (const double x : terms) {
    s.value = step(op, s.value, x);
    sizes += std::abs(step(op, 0, x));
    if (!is_float(t)) s.value = wrapped(s.value, t);
  }
  const double u = unit_roundoff(t), count = static_cast<double>(terms.size());
  if (op == ReduceOp::prod) return {s.value, product_bound(u, terms, s.value, t)};
  const bool small_terms = op == ReduceOp::l2 || op == ReduceOp::sum_square || op == ReduceOp::log_sum_exp;
  const double flushed = small_terms && sizes > 0 && t != DType::f64 ? count * f32_underflow : 0;
  return {s.value, bound_within(u * std::sqrt(count) * sizes + flushed, s.value, sizes, t)};
}

Sum reduced(ReduceOp op, std::vector<double> terms, DType t) {
  const auto count = static_cast<double>(terms.size());
  double top = -infinity;
  for (const double x : terms) top = greater(top, x);
  const double shift = op == ReduceOp::log_sum_exp && std::isfinite(top) ? top : 0;
  if (op == ReduceOp::log_sum_exp)
    for (double& x : terms) x = std::exp(x - shift);
  Sum s = folded(op, terms, t);
  if (op == ReduceOp::max || op == ReduceOp::min || !is_float(t)) {
    s.bound = 0;
    if (op == ReduceOp::mean) s.value /= count;
    if (op == ReduceOp::l2) s.value = std::sqrt(s.value);
    return s;
  }
  if (op == ReduceOp::mean) s = {s.value / count, bound_within(s.bound / count, s.value / count, std::abs(s.value), t)};
  if (op == ReduceOp::l2) {
    const auto root = [](double x) { return std::sqrt(std::max(x, 0.0)); };
    s.bound = bound_within(moved_by(s.value, s.bound, root), std::sqrt(s.value), s.value, t);
    s.value = std::sqrt(s.value);
  }
  if (op == ReduceOp::log_sum || op == ReduceOp::log_sum_exp) {
    const auto log = [](double x) { return std::log(std::max(x, 0.0)); };
    s.bound = bound_within(moved_by(s.value, s.bound, log), 0, std::abs(s.value), t);
    s.value = std::log(s.value) + shift;
  }
  return {s.value, s.bound + 2 * unit_roundoff(t) * std::abs(s.value)};
}

}  // namespace

Tensor64 evaluate_tensors(const operators::Reduce& o, const ReferenceInputs& in) {
  const Tensor64& x = *in[0];
  const Groups g = group(x.shape, reduced_axes(o.axes, x.shape.size()), o.keep);
  Tensor64 y = empty_tensor(g.shape);
  for (std::size_t i = 0; i < y.value.size(); ++i) {
    std::vector<double> terms;
    for (const std::size_t at : g.of[i]) terms.push_back(x.value[at]);
    const Sum s = reduced(o.op, std::move(terms), x.dtype);
    y.value[i] = s.value, y.bound[i] = s.bound;
  }
  return y;
}

namespace {

/// Whether an element is more extreme than the best of those ahead of it. A NaN is beyond every number, as in NumPy.
bool is_better(double x, double best, const operators::ArgReduce& o) {
  if (std::isnan(x) || std::isnan(best)) return std::isnan(x) && (o.last || !std::isnan(best));
  return (o.smallest ? x < best : x > best) || (o.last && x == best);
}

}  // namespace

Tensor64 evaluate_tensors(const operators::ArgReduce& o, const ReferenceInputs& in) {
  const Tensor64& x = *in[0];
  const Groups g = group(x.shape, reduced_axes({o.axis}, x.shape.size()), o.keep);
  Tensor64 y = empty_tensor(g.shape);
  for (std::size_t i = 0; i < y.value.size(); ++i) {
    const auto& all = g.of[i];
    std::size_t best = 0;
    for (std::size_t k = 1; k < all.size(); ++k)
      if (is_better(x.value[all[k]], x.value[all[best]], o)) best = k;
    y.value[i] = static_cast<double>(best);
    std::vector<double> line;
    for (const std::size_t at : all) line.push_back(x.value[at]);
    if (is_float(x.dtype)) decide(y, i, chosen(line, best, o.smallest));
  }
  return y;
}

}  // namespace unisono::float64
