/// Normalisations and softmax, from the statistics of reduction.cpp. The bounds are those of an implementation that
/// computes (x − mean)·(rstd·scale) + shift with rstd = 1/√(variance + eps), and exp(x − max)/Σexp(x − max).

#include <algorithm>
#include <array>

#include "reference/fold.hpp"
#include "reference/nodes.hpp"
#include "unisono/error.hpp"

namespace unisono::reference {

namespace {

// 1/√(t + eps), element by element
Term rstd_of(const Term& t, double eps, const Space& space, const Arithmetic& a) {
  Term r(space, t.axes, t.dtype);
  for (std::int64_t i = 0; i < t.size(); ++i) {
    const V v = a.rsqrt(a.add({t.v[i], t.e[i]}, {eps, a.representation(eps)}));
    r.values()[i] = v.v;
    r.bounds()[i] = std::isnan(v.e) ? infinity : v.e;
  }
  return r;
}

// By image (or for the whole batch) and column: how far values of a normalisation's input may be off because they
// waited in a shorter type
Term kept_errors(const Term& x, const Space& space, double roundoff, std::int64_t columns, bool per_image) {
  const bool waits = roundoff != 0 && x.axes == axes::mn;
  Term error(space, waits ? (per_image ? axes::bn : axes::n) : axes::scalar, DType::f32);  // no finer than the result
  std::fill_n(error.values(), error.size(), 0.0);
  std::fill_n(error.bounds(), error.size(), 0.0);
  if (!waits) return error;
  const std::int64_t pixels = per_image ? space.extents.rows_per_image() : space.extents.rows();
  for (std::int64_t i = 0; i < error.size(); ++i) {
    const std::int64_t start = i / x.cols * pixels * x.cols + i % x.cols / columns * columns;
    double low = x.v[start], high = low;
    for (std::int64_t m = 0; m < pixels; ++m)
      for (std::int64_t n = 0; n < columns; ++n) {
        low = std::min(low, x.v[start + m * x.cols + n]);
        high = std::max(high, x.v[start + m * x.cols + n]);
      }
    error.values()[i] = roundoff * (high - low);
  }
  return error;
}

bool waits(const ReduceDomain& domain, const ErrorModel& model) {
  return domain.rows && model.kept_roundoff != 0 && model.kept_centred;
}

Term number(double value, const Space& space) {
  Term t(space, axes::scalar, DType::f32);
  t.values()[0] = value;
  t.bounds()[0] = 0;
  return t;
}

}  // namespace

void add_kept_errors(const Term& x, const ReduceDomain& domain, Term& difference, const Space& space,
                     const ErrorModel& model) {
  if (!waits(domain, model)) return;
  const Term kept = kept_errors(x, space, model.kept_roundoff, model.kept_columns, domain.per_image);
  for_each_stretch<1>(difference, {&kept}, space,
                      [&](std::int64_t first, std::int64_t count, const std::array<Lane, 1>& error) {
                        for (std::int64_t i = 0; i < count; ++i) difference.bounds()[first + i] += error[0][i].v;
                      });
}

void evaluate_normalisation(const Node& node, Inputs in, Term& out, const Space& space, const ErrorModel& model) {
  const Arithmetic a(node.dtype, model);
  const Fold fold(*in[0], node.attr.domain, space, to_string(node.op));
  const bool centred = node.op != Op::rms_norm;
  Statistics s;
  if (centred) {
    s = statistics(fold, node.dtype, space, a);
  } else {
    s.mean = number(0, space);
    s.variance = mean_square(fold, node.dtype, space, a);
  }
  const Term rstd = rstd_of(s.variance, node.attr.eps, space, a);
  const Term one = number(1, space), zero = number(0, space);
  const bool has_scale = node.attr.has_scale, has_shift = node.attr.has_shift;
  const Term* scale = has_scale ? in[1] : &one;
  const Term* shift = has_shift ? in[has_scale ? 2 : 1] : &zero;
  const ReduceDomain& domain = node.attr.domain;
  const Term kept =
      kept_errors(*in[0], space, waits(domain, model) ? model.kept_roundoff : 0, model.kept_columns, domain.per_image);
  for_each_stretch<6>(out, {in[0], &s.mean, &rstd, scale, shift, &kept}, space,
                      [&](std::int64_t first, std::int64_t count, const std::array<Lane, 6>& x) {
                        for (std::int64_t i = 0; i < count; ++i) {
                          V centre = centred ? a.sub(x[0][i], x[1][i]) : x[0][i];
                          centre.e += x[5][i].v;
                          const V factor = has_scale ? a.mul(x[2][i], x[3][i]) : x[2][i];
                          const V y = has_shift ? a.fma(centre, factor, x[4][i]) : a.mul(centre, factor);
                          out.values()[first + i] = y.v;
                          out.bounds()[first + i] = std::isnan(y.e) ? infinity : y.e;
                        }
                      });
}

namespace {

// The largest of each domain. Any common shift cancels in the quotient, so that its error does not count.
Term largest_of(const Fold& fold, const Space& space, DType dtype) {
  Term largest(space, fold.axes, dtype);
  std::fill_n(largest.values(), fold.size(), -infinity);
  std::fill_n(largest.bounds(), fold.size(), 0.0);
  fold.each([&](std::size_t i, V t) {
    double& worst = largest.values()[i];
    worst = std::isnan(t.v) || std::isnan(worst) ? NAN : std::max(worst, t.v);
  });
  return largest;
}

// exp(x − max); a term of −∞ is an exact 0
V softmax_weight(const Arithmetic& a, V t, V m) {
  if (t.v == -infinity && t.e == 0 && m.v > -infinity) return V{0, 0};
  return a.exp(a.sub(t, m));
}

}  // namespace

void evaluate_softmax(const Node& node, const Term& x, Term& out, const Space& space, const ErrorModel& model) {
  const Arithmetic a(node.dtype, model);
  const Fold fold(x, node.attr.domain, space, to_string(node.op));
  const Term largest = largest_of(fold, space, node.dtype);
  Term total(space, fold.axes, node.dtype);
  std::vector<Sum> sum(fold.size());
  std::vector<double> error(fold.size()), magnitude(fold.size());
  fold.each([&](std::size_t i, V t) {
    const V p = softmax_weight(a, t, {largest.v[i], 0});
    sum[i].add(p.v);
    error[i] += p.e;
    magnitude[i] += p.v + p.e;
  });
  const double any_order = fold.points - 1;
  const double h = a.longest_chain > 0 ? std::min(a.longest_chain, any_order) : any_order;
  // running sums that are rescaled when the maximum grows round once more, and scale by an exp
  const double relative = a.chain(2 * h + 2 * model.function_ulps);
  for (std::size_t i = 0; i < fold.size(); ++i) {
    total.values()[i] = fold.weight() * sum[i].value();
    const double own = std::isnan(sum[i].value()) ? 0 : relative * magnitude[i];  // a NaN is certain
    total.bounds()[i] = fold.weight() * (error[i] + own);
  }
  for_each_stretch<3>(out, {&x, &largest, &total}, space,
                      [&](std::int64_t first, std::int64_t count, const std::array<Lane, 3>& in) {
                        for (std::int64_t i = 0; i < count; ++i) {
                          const V y = a.div(softmax_weight(a, in[0][i], in[1][i]), in[2][i]);
                          out.values()[first + i] = y.v;
                          out.bounds()[first + i] = std::isnan(y.e) ? infinity : y.e;
                        }
                      });
}

}  // namespace unisono::reference
