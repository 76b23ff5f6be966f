#pragma once
/// Values while a graph is evaluated, how they broadcast, and the arithmetic of values with error bounds.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "reference/reference.hpp"
#include "unisono/contraction.hpp"
#include "unisono/graph.hpp"

namespace unisono::reference {

/// A value with an absolute error bound. A bound of infinity makes no claim: the implementation may have any value
/// there, NaN included.
struct V {
  double v = 0;
  double e = 0;
};

inline constexpr double infinity = std::numeric_limits<double>::infinity();

/// Number of rows and columns of a value with these axes.
struct Space {
  Extents extents;
  std::int64_t rows(const Axes& a) const {
    return a.row == RowAxis::m ? extents.rows() : a.row == RowAxis::b ? extents.images : 1;
  }
  std::int64_t cols(const Axes& a) const {
    return a.col == ColAxis::n ? extents.cols : a.col == ColAxis::g ? a.groups : 1;
  }
};

/// A value of the graph: `rows`·`cols` elements, row-major.
class Term {
 public:
  Term() = default;
  /// Uninitialised elements, owned.
  Term(const Space& space, const Axes& axes, DType dtype);

  Axes axes;
  DType dtype = DType::f32;
  bool constant = false;  ///< a number: in arithmetic it takes the dtype of what it meets
  std::int64_t rows = 1, cols = 1;
  const double* v = nullptr;
  const double* e = nullptr;

  std::int64_t size() const { return rows * cols; }
  double* values() { return storage_.get(); }
  double* bounds() { return storage_.get() + size(); }

 private:
  std::unique_ptr<double[]> storage_;
};

/// How one input runs along a stretch of the output: element i is (v[i·step], e[i·step]).
struct Lane {
  const double* v;
  const double* e;
  std::int64_t step;
  V operator[](std::int64_t i) const { return {v[i * step], e[i * step]}; }
};

/// `x` repeated to the finer axes `to`.
Term expand(const Term& x, const Axes& to, const Space& space);

/// The inputs along a stretch that is one image's part of a column: [m] meets [b].
template <std::size_t N>
std::array<Lane, N> lanes_of_image(const Term& out, const std::array<const Term*, N>& inputs, std::int64_t image,
                                   std::int64_t length) {
  std::array<Lane, N> lanes{};
  for (std::size_t i = 0; i < N; ++i) {
    const Term& x = *inputs[i];
    const bool full = x.rows == out.rows;
    const std::int64_t first = full ? image * length : x.rows == 1 ? 0 : image;
    lanes[i] = {x.v + first, x.e + first, full ? 1 : 0};
  }
  return lanes;
}

/// The inputs along a stretch that is one row.
template <std::size_t N>
std::array<Lane, N> lanes_of_row(const Term& out, const std::array<const Term*, N>& inputs, std::int64_t row,
                                 const Space& space) {
  std::array<Lane, N> lanes{};
  for (std::size_t i = 0; i < N; ++i) {
    const Term& x = *inputs[i];
    const std::int64_t own = x.rows == out.rows ? row : x.rows == 1 ? 0 : row / space.extents.rows_per_image();
    lanes[i] = {x.v + own * x.cols, x.e + own * x.cols, x.cols == 1 ? 0 : 1};
  }
  return lanes;
}

/// Cuts the elements of `out` into stretches along which each input is either contiguous or constant, and calls
/// body(first element, count, lanes).
template <std::size_t N, class Body>
void for_each_stretch(const Term& out, const std::array<const Term*, N>& inputs, const Space& space, Body body) {
  const auto same = [&](const Term* x) { return (x->rows == out.rows && x->cols == out.cols) || x->size() == 1; };
  if (std::all_of(inputs.begin(), inputs.end(), same)) {
    std::array<Lane, N> lanes{};
    for (std::size_t i = 0; i < N; ++i) lanes[i] = {inputs[i]->v, inputs[i]->e, inputs[i]->size() == 1 ? 0 : 1};
    return body(std::int64_t{0}, out.size(), lanes);
  }
  if (out.cols == 1) {
    const std::int64_t length = space.extents.rows_per_image();
    for (std::int64_t b = 0; b < space.extents.images; ++b)
      body(b * length, length, lanes_of_image(out, inputs, b, length));
    return;
  }
  std::array<Term, N> finer;  // groups of columns repeated to columns
  std::array<const Term*, N> from = inputs;
  for (std::size_t i = 0; i < N; ++i) {
    const Axes& a = inputs[i]->axes;
    if (a.col == ColAxis::g && out.axes.col == ColAxis::n) {
      finer[i] = expand(*inputs[i], {a.row, ColAxis::n, 0}, space);
      from[i] = &finer[i];
    }
  }
  for (std::int64_t r = 0; r < out.rows; ++r) body(r * out.cols, out.cols, lanes_of_row(out, from, r, space));
}

/// The roundings of an implementation that computes in f32 (nodes of the shorter types too: they round afterwards) or
/// in f64.
class Arithmetic {
 public:
  Arithmetic(DType dtype, const ErrorModel& model);

  double u;        ///< error of one rounding, relative to the result
  double f;        ///< error of an elementary function, relative to the result
  double tiny;     ///< absolute error by underflow; subnormals may be flushed to zero
  double largest;  ///< above it, the result is infinite
  bool single;     ///< f32
  double longest_chain;

  /// Bound for `v` once its total error is estimated as `d`: beyond the largest number there is no claim. NaN and
  /// infinity are certain if the inputs' part `inherited` is finite.
  V settle(double v, double d, double inherited) const {
    if (std::abs(v) + d <= largest) return {v, d};
    if (std::abs(v) <= std::numeric_limits<double>::max()) return {v, infinity};
    return {v, inherited < infinity ? 0 : infinity};
  }
  /// A correctly rounded operation. With exact inputs, a result that f32 can hold is exact.
  V rounded(double v, double inherited) const {
    const double d = inherited + u * (std::abs(v) + inherited) + tiny;
    const bool exact = single && inherited == 0 && static_cast<double>(static_cast<float>(v)) == v;
    return settle(v, exact ? 0 : d, inherited);
  }
  /// An operation without rounding.
  V unrounded(double v, double inherited) const { return settle(v, inherited, inherited); }
  /// An elementary function.
  V function(double v, double inherited) const {
    return settle(v, inherited + f * (std::abs(v) + inherited) + tiny, inherited);
  }
  /// Any operation of which the absolute error `own` is known.
  V with_error(double v, double inherited, double own) const { return settle(v, inherited + own + tiny, inherited); }

  /// Error of an attribute or constant that is held in f32.
  double representation(double v) const {
    return !single || static_cast<double>(static_cast<float>(v)) == v ? 0 : u * std::abs(v);
  }
  /// Relative error of a sum in which each term goes through at most `roundings` roundings (Higham, lemma 3.1).
  double chain(double roundings) const {
    const double hu = roundings * u;
    return hu < 1 ? hu / (1 - hu) : infinity;
  }

  V add(V x, V y) const { return rounded(x.v + y.v, x.e + y.e); }
  V sub(V x, V y) const { return rounded(x.v - y.v, x.e + y.e); }
  V mul(V x, V y) const { return rounded(x.v * y.v, product_error(x, y)); }
  V div(V x, V y) const;
  V fma(V x, V y, V z) const;
  V rsqrt(V x) const;
  V exp(V x) const;

  /// |x̂·ŷ − x·y|
  static double product_error(V x, V y) {
    if (x.e + y.e == 0) return 0;
    const double p = std::abs(x.v) * y.e + std::abs(y.v) * x.e + x.e * y.e;
    return p < infinity ? p : certain(x, y, std::abs(x.v) > x.e && std::abs(y.v) > y.e) ? 0 : infinity;
  }

 private:
  // Whether the result for an operand that is NaN or infinite is the same for all values in the intervals: it is for a
  // NaN, and for an infinity if nothing may be 0
  static bool certain(V x, V y, bool nonzero) {
    if (!(x.e + y.e < infinity)) return false;
    return std::isnan(x.v) || std::isnan(y.v) || (nonzero && (std::isinf(x.v) || std::isinf(y.v)));
  }
};

inline V Arithmetic::div(V x, V y) const {
  const double q = x.v / y.v;
  double inherited = 0;  // |x̂/ŷ − x/y| ≤ (e_x + |x/y|·e_y)/(|y| − e_y)
  if (x.e + y.e != 0) {
    inherited = std::abs(y.v) > y.e ? (x.e + std::abs(q) * y.e) / (std::abs(y.v) - y.e) : infinity;
    if (!(inherited < infinity) && certain(x, y, std::abs(y.v) > y.e)) inherited = 0;
  }
  return function(q, inherited);
}

// x·y + z in one rounding or in two
inline V Arithmetic::fma(V x, V y, V z) const {
  const double product = x.v * y.v;
  const double v = single ? product + z.v : std::fma(x.v, y.v, z.v);  // f32: the product is exact in f64
  const V p = rounded(product, product_error(x, y));
  return rounded(v, p.e + z.e);
}

inline V Arithmetic::rsqrt(V x) const {
  const double s = std::sqrt(x.v);
  double inherited = 0;  // 1/√(x−e) − 1/√x
  if (x.e != 0) {
    const double low = std::sqrt(x.v - x.e);
    inherited = x.v > x.e ? x.e / ((s + low) * s * low) : x.v < -x.e ? 0 : infinity;
  }
  return function(1 / s, inherited);
}

inline V Arithmetic::exp(V x) const {
  const double v = std::exp(x.v);
  const double growth = x.e < 0.5 ? x.e * (1 + x.e) : std::expm1(x.e);
  return function(v, x.e == 0 ? 0 : v * growth);
}

}  // namespace unisono::reference
