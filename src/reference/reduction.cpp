/// Reductions with error bounds.
///
/// n points, u the unit roundoff, h ≤ n − 1 the most roundings that a term goes through, γ(h) = h·u/(1 − h·u):
///   sum       Σe + γ(h)·Σ(|x| + e)                                   (Higham, "Accuracy and Stability", lemma 3.1)
///   mean      Δ = γ(h + 8·log2 n + 4)·Σ(|x| + e)/n by roundings, mean(e) inherited. A sum divided by n needs γ(h + 1);
///             Welford's updates n + 2·ln n + 2 roundings; merging two partial means, m + δ·n'/n, up to 7 on each level
///   variance  with d = x − mean and the same h': var·γ(h' + 1) + 2·mean|d|·Δ + Δ² by roundings: the error u·n·κ of the
///   two-pass and
///             updating algorithms, κ² = mean(x²)/var (Chan, Golub & LeVeque, "Algorithms for computing the sample
///             variance", 1983, table 1; the one-pass form mean(x²) − mean² with its κ² is not covered);
///             2·mean(|d|·e) + mean(e²) inherited
///   max, min  the largest x + e and the largest x − e enclose every implementation's maximum

#include <algorithm>

#include <fmt/format.h>
#include "reference/fold.hpp"
#include "reference/nodes.hpp"
#include "unisono/error.hpp"

namespace unisono::reference {

Fold::Fold(const Term& x, const ReduceDomain& d, const Space& space, std::string_view what) : x_(&x) {
  const Extents& e = space.extents;
  if (d.cols && e.cols % d.groups != 0)
    throw UserError(fmt::format("{} was given groups={} over {} columns; expected a divisor of {}", what, d.groups,
                                e.cols, e.cols));
  if (d.cols && x.axes.col == ColAxis::g && x.axes.groups % d.groups != 0) {
    finer_ = expand(x, {x.axes.row, ColAxis::n, 0}, space);
    x_ = &finer_;
  }
  axes = x_->axes;
  if (d.rows) {
    axes.row = d.per_image && x.axes.row != RowAxis::none ? RowAxis::b : RowAxis::none;
    points *= static_cast<double>(d.per_image ? e.rows_per_image() : e.rows());
  }
  if (d.cols) {
    axes.col = d.groups > 1 && x_->axes.col != ColAxis::none ? ColAxis::g : ColAxis::none;
    axes.groups = axes.col == ColAxis::g ? d.groups : 0;
    points *= static_cast<double>(e.cols) / d.groups;
  }
  rows = space.rows(axes);
  cols = space.cols(axes);
  rows_each_ = x_->rows / rows;
  cols_each_ = x_->cols / cols;
  elements = static_cast<double>(rows_each_) * static_cast<double>(cols_each_);
}

namespace {

struct Sums {
  Sum sum;
  double absolute = 0, error = 0;
  bool integers = true;

  void add(double x, double e) {
    sum.add(x);
    absolute += std::abs(x);
    error += e;
    integers = integers && (x + 0x1.8p52) - 0x1.8p52 == x;  // the sum has no bits below 1
  }
};

double chain_length(const Fold& fold, const Arithmetic& a) {
  const double any_order = fold.points - 1;
  return a.longest_chain > 0 ? std::min(a.longest_chain, any_order) : any_order;
}

// Each partial sum must stay below the largest number
V claim(const Arithmetic& a, double v, double d, double inherited, double magnitude) {
  if (std::isfinite(v) && !(magnitude <= a.largest)) return {v, infinity};
  return a.settle(v, d, inherited);
}

V sum_of(const Sums& s, const Fold& fold, const Arithmetic& a) {
  const double w = fold.weight(), v = w * s.sum.value(), inherited = w * s.error,
               magnitude = w * s.absolute + inherited;
  if (a.single && s.error == 0 && s.integers && magnitude <= 0x1p24) return {v, 0};  // all partial sums are exact
  const double h = chain_length(fold, a);
  const double own = h == 0 ? 0 : a.chain(h) * magnitude + h * a.tiny;
  return claim(a, v, inherited + own, inherited, magnitude);
}

// Roundings that a term of a mean goes through
double mean_chain(const Fold& fold, const Arithmetic& a) {
  return chain_length(fold, a) + 8 * std::ceil(std::log2(fold.points)) + 4;
}

V mean_of(const Sums& s, const Fold& fold, const Arithmetic& a) {
  const double n = fold.elements, magnitude = (s.absolute + s.error) / n, inherited = s.error / n;
  const double own = a.chain(mean_chain(fold, a)) * magnitude + a.tiny;
  return claim(a, s.sum.value() / n, inherited + own, inherited, magnitude * fold.points);
}

std::vector<Sums> sums(const Fold& fold) {
  std::vector<Sums> s(fold.size());
  fold.each([&](std::size_t i, V x) { s[i].add(x.v, x.e); });
  return s;
}

// d = x − mean
struct Deviations {
  Sum squares;
  double absolute = 0, with_error = 0, errors = 0;

  void add(double d, double e) {
    squares.add(d * d);
    absolute += std::abs(d);
    if (e != 0) {
      with_error += std::abs(d) * e;
      errors += e * e;
    }
  }
};

V variance_of(const Deviations& d, const Sums& s, const Fold& fold, const Arithmetic& a) {
  const double n = fold.elements, v = d.squares.value() / n;
  const double h = mean_chain(fold, a);
  const double mean_error = a.chain(h) * (s.absolute + s.error) / n;
  const double inherited = (2 * d.with_error + d.errors) / n;
  const double own =
      a.chain(h + 1) * (v + inherited) + 2 * (d.absolute + s.error) / n * mean_error + mean_error * mean_error + a.tiny;
  return claim(a, v, inherited + own, inherited, (v + inherited) * fold.points);
}

// x² with 2|x|e + e²
std::vector<Sums> square_sums(const Fold& fold) {
  std::vector<Sums> s(fold.size());
  fold.each([&](std::size_t i, V x) { s[i].add(x.v * x.v, Arithmetic::product_error(x, x)); });
  return s;
}

struct Extreme {
  double value = -infinity, high = -infinity, low = -infinity;
  bool nan = false;

  void add(double x, double e) {
    nan = nan || std::isnan(x);
    value = std::max(value, x);
    high = std::max(high, x + e);
    low = std::max(low, e == infinity ? -infinity : x - e);
  }
  V result(double errors) const {
    if (nan) return {std::numeric_limits<double>::quiet_NaN(), errors < infinity ? 0 : infinity};
    if (std::isinf(value)) return {value, errors < infinity ? 0 : infinity};
    return {value, std::max(high - value, value - low)};
  }
};

// Maximum of sign·x, times sign
std::vector<V> extremes(const Fold& fold, double sign) {
  std::vector<Extreme> best(fold.size());
  std::vector<double> errors(fold.size());
  fold.each([&](std::size_t i, V x) {
    best[i].add(sign * x.v, x.e);
    errors[i] += x.e;
  });
  std::vector<V> r(fold.size());
  for (std::size_t i = 0; i < r.size(); ++i) {
    r[i] = best[i].result(errors[i]);
    r[i].v *= sign;
  }
  return r;
}

// Sums modulo 2^32
std::vector<V> integer_sums(const Fold& fold, bool squares) {
  std::vector<std::uint64_t> bits(fold.size());
  std::vector<Sums> s(fold.size());
  fold.each([&](std::size_t i, V x) {
    const auto k = static_cast<std::int64_t>(x.v);
    bits[i] += static_cast<std::uint64_t>(squares ? k * k : k);
    s[i].add(squares ? x.v * x.v : x.v, squares ? Arithmetic::product_error(x, x) : x.e);
  });
  std::vector<V> r(fold.size());
  const double w = fold.weight();
  for (std::size_t i = 0; i < r.size(); ++i) {
    const auto low = static_cast<std::uint32_t>(bits[i] * static_cast<std::uint64_t>(w));
    const double e = w * s[i].error;
    r[i] = {static_cast<double>(static_cast<std::int32_t>(low)),
            e == 0 || w * s[i].absolute + e < 0x1p31 ? e : infinity};
  }
  return r;
}

std::vector<V> reduce(const Node& node, const Fold& fold, const Arithmetic& a) {
  const bool integral = node.dtype == DType::i32;
  std::vector<V> r(fold.size());
  switch (node.op) {
    case Op::reduce_max: return extremes(fold, 1);
    case Op::reduce_min: return extremes(fold, -1);
    case Op::sum:
    case Op::sum_squares: {
      if (integral) return integer_sums(fold, node.op == Op::sum_squares);
      const auto s = node.op == Op::sum ? sums(fold) : square_sums(fold);
      for (std::size_t i = 0; i < r.size(); ++i) {
        r[i] = sum_of(s[i], fold, a);
        // each square is rounded before it is added
        if (node.op == Op::sum_squares && r[i].e != 0) r[i].e += a.u * fold.weight() * (s[i].absolute + s[i].error);
        if (node.op == Op::sum_squares && fold.points == 1) r[i] = a.rounded(r[i].v, s[i].error);
      }
      return r;
    }
    case Op::mean: {
      const auto s = sums(fold);
      for (std::size_t i = 0; i < r.size(); ++i) r[i] = mean_of(s[i], fold, a);
      return r;
    }
    default: throw InternalError("the reference has no reduction " + std::string(to_string(node.op)));
  }
}

Term term_of(const Fold& fold, DType dtype, const Space& space, const std::vector<V>& values) {
  Term t(space, fold.axes, dtype);
  for (std::size_t i = 0; i < values.size(); ++i) {
    t.values()[i] = values[i].v;
    t.bounds()[i] = values[i].e;
  }
  return t;
}

}  // namespace

Statistics statistics(const Fold& fold, DType dtype, const Space& space, const Arithmetic& a) {
  const auto s = sums(fold);
  std::vector<V> mean(fold.size()), variance(fold.size());
  for (std::size_t i = 0; i < mean.size(); ++i) mean[i] = mean_of(s[i], fold, a);
  std::vector<Deviations> d(fold.size());
  fold.each([&](std::size_t i, V x) { d[i].add(x.v - mean[i].v, x.e); });
  for (std::size_t i = 0; i < mean.size(); ++i) variance[i] = variance_of(d[i], s[i], fold, a);
  return {term_of(fold, dtype, space, mean), term_of(fold, dtype, space, variance)};
}

Term mean_square(const Fold& fold, DType dtype, const Space& space, const Arithmetic& a) {
  const auto s = square_sums(fold);
  std::vector<V> r(fold.size());
  for (std::size_t i = 0; i < r.size(); ++i) r[i] = mean_of(s[i], fold, a);
  return term_of(fold, dtype, space, r);
}

void evaluate_reduction(const Node& node, const Term& x, Term& out, const Space& space, const ErrorModel& model) {
  const Arithmetic a(node.dtype, model);
  const Fold fold(x, node.attr.domain, space, to_string(node.op));
  Term distinct = node.op == Op::variance ? statistics(fold, node.dtype, space, a).variance
                                          : term_of(fold, node.dtype, space, reduce(node, fold, a));
  out = distinct.axes == out.axes ? std::move(distinct) : expand(distinct, out.axes, space);
}

}  // namespace unisono::reference
