#pragma once
/// Folding the elements of a value into one accumulator for each result of a reduction.
///
/// A reduction runs over the index set (m, n) of its domain; a value that is broadcast there counts as often as it is
/// repeated. The elements in memory are folded once each and stand for `weight` points.

#include <string>
#include <vector>

#include "reference/term.hpp"

namespace unisono::reference {

class Fold {
 public:
  /// `what` names the operation in errors: UserError if the columns do not fall into equal groups.
  Fold(const Term& x, const ReduceDomain& domain, const Space& space, std::string_view what);
  Fold(const Fold&) = delete;  // may point into itself
  Fold& operator=(const Fold&) = delete;

  Axes axes;                        ///< the distinct results'
  std::int64_t rows = 1, cols = 1;  ///< the distinct results'
  double points = 1;                ///< (m, n) points in each result
  double elements = 1;              ///< elements in memory in each result
  double weight() const { return points / elements; }
  std::size_t size() const { return static_cast<std::size_t>(rows * cols); }

  /// Calls f(result, x) for every element, results counted row-major, elements of a result in row-major order.
  template <class F>
  void each(F f) const {
    for (std::int64_t r = 0; r < x_->rows; ++r) {
      const std::int64_t first = r / rows_each_ * cols;
      std::int64_t i = r * x_->cols;
      for (std::int64_t c = 0; c < cols; ++c)
        for (std::int64_t k = 0; k < cols_each_; ++k, ++i)
          f(static_cast<std::size_t>(first + c), V{x_->v[i], x_->e[i]});
    }
  }

 private:
  Term finer_;  // x with its groups of columns repeated to columns, where the groups of x and of the domain do not nest
  const Term* x_;
  std::int64_t rows_each_ = 1, cols_each_ = 1;
};

/// A sum carried with its rounding error (Knuth's TwoSum in the manner of Neumaier), so that the reference's own error
/// is a few 2^-53 whatever the count.
struct Sum {
  double high = 0, low = 0;
  void add(double x) {
    const double t = high + x, z = t - high;
    low += (high - (t - z)) + (x - z);
    high = t;
  }
  double value() const { return std::isfinite(high) ? high + low : high; }
};

/// Count, mean and variance of each result of a fold, with bounds, as an implementation gets them by two passes, by
/// Welford's updates or by Chan's merging.
struct Statistics {
  Term mean, variance;
};
Statistics statistics(const Fold& fold, DType dtype, const Space& space, const Arithmetic& a);

/// Mean of squares, with bounds.
Term mean_square(const Fold& fold, DType dtype, const Space& space, const Arithmetic& a);

}  // namespace unisono::reference
