#pragma once
// An epilogue in float64, node by node. Next to each value stands how far an implementation in float32 may be from it:
// first order, by moving each input of a node as far as that one may be off.

#include <math.h>

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <thread>
#include <vector>

#include "unisono/emitted/tensors.hpp"

namespace unisono::emitted {

// The iteration space
struct Space {
  long long images, height, width, columns;
  constexpr long long rows_of_image() const { return height * width; }
  constexpr long long rows() const { return images * height * width; }
};

// One value for each of some rows (none: 1, images, all) and columns (none: 1, groups, all)
struct Values {
  long long rows = 1, columns = 1;
  std::vector<double> value = {}, error = {};

  Values() = default;
  Values(long long of_rows, long long of_columns)
      : rows(of_rows), columns(of_columns), value(size_t(of_rows * of_columns)), error(value.size()) {}
  // Where that of an element of the whole is
  size_t at(const Space& s, long long row, long long column) const {
    return size_t(row / (s.rows() / rows) * columns + column / (s.columns / columns));
  }
};

// body(first, last) on the machine's threads
inline void over_rows(long long count, const std::function<void(long long, long long)>& body) {
  const long long threads = std::min<long long>(count, std::max(1u, std::thread::hardware_concurrency()));
  std::vector<std::thread> pool;
  for (long long t = 1; t < threads; ++t) pool.emplace_back(body, count * t / threads, count * (t + 1) / threads);
  body(0, count / std::max(1ll, threads));
  for (std::thread& t : pool) t.join();
}

// What a node's own arithmetic may be off by: relative to the result, absolute, relative to one of the inputs
struct Bound {
  double relative, absolute, of_input;
  int input;
};

inline double distance(double x, double y) { return x == y || (x != x && y != y) ? 0 : fabs(x - y); }

// f(x, y, z) of up to three inputs
template <class F>
Values each(const Space& s, long long rows, long long columns, const Bound& bound,
            std::initializer_list<const Values*> in, F f) {
  Values result(rows, columns);
  const std::vector<const Values*> inputs(in);
  over_rows(rows, [&](long long first, long long last) {
    for (long long row = first; row < last; ++row)
      for (long long column = 0; column < columns; ++column) {
        double x[3] = {}, e[3] = {};
        for (size_t i = 0; i < inputs.size(); ++i) {
          const size_t at = inputs[i]->at(s, row * (s.rows() / rows), column * (s.columns / columns));
          x[i] = inputs[i]->value[at], e[i] = inputs[i]->error[at];
        }
        const double y = f(x[0], x[1], x[2]);
        double off = 0;
        for (size_t i = 0; i < inputs.size(); ++i) {
          if (e[i] == 0) continue;
          const double was = x[i];
          x[i] = was + e[i];
          const double above = distance(f(x[0], x[1], x[2]), y);
          x[i] = was - e[i];
          const double below = distance(f(x[0], x[1], x[2]), y);
          x[i] = was;
          off += above > below || above != above ? above : below;
        }
        off = 1.25 * off + bound.relative * fabs(y) + bound.absolute + bound.of_input * fabs(x[bound.input]);
        const size_t at = size_t(row * columns + column);
        result.value[at] = y, result.error[at] = y != y ? 0 : off != off ? INFINITY : off;
      }
  });
  return result;
}

// f(row, column) of the whole, exact
template <class F>
Values made(const Space& s, long long rows, long long columns, F f) {
  Values result(rows, columns);
  for (long long row = 0; row < rows; ++row)
    for (long long column = 0; column < columns; ++column)
      result.value[size_t(row * columns + column)] = double(f(row * (s.rows() / rows), column * (s.columns / columns)));
  return result;
}

enum class Fold { sum, mean, sum_squares, variance, max, min };

// take(index in the result, value, error) for each element of the whole
template <class Take>
void over_all(const Space& s, const Values& result, const Values& x, Take take) {
  for (long long row = 0; row < s.rows(); ++row)
    for (long long column = 0; column < s.columns; ++column) {
      const size_t from = x.at(s, row, column);
      take(result.at(s, row, column), x.value[from], x.error[from]);
    }
}

inline Values largest(const Space& s, long long rows, long long columns, const Values& x, double sign) {
  Values result(rows, columns), above(rows, columns);
  std::fill(result.value.begin(), result.value.end(), -INFINITY), above.value = result.value;
  over_all(s, result, x, [&](size_t to, double v, double e) {
    const double y = sign * v;  // NaN stays: of the comparisons with it none holds
    result.value[to] = y <= result.value[to] ? result.value[to] : y;
    above.value[to] = std::max(above.value[to], y + e);
  });
  for (size_t i = 0; i < result.value.size(); ++i)
    result.error[i] = above.value[i] - result.value[i], result.value[i] *= sign;
  return result;
}

// The mean of (x - mean)²
inline Values spread(const Space& s, const Values& mean, double points, double u, const Values& x) {
  Values result(mean.rows, mean.columns), size(mean.rows, mean.columns);
  over_all(s, result, x, [&](size_t to, double v, double e) {
    const double d = v - mean.value[to], off = e + 0x1p-24 * fabs(v);
    result.value[to] += d * d / points, result.error[to] += (2 * fabs(d) + off) * off / points;
    size.value[to] += fabs(d) / points;
  });
  for (size_t i = 0; i < result.value.size(); ++i)
    result.error[i] += u * result.value[i] + (2 * size.value[i] + mean.error[i]) * mean.error[i];
  return result;
}

// All elements that share a row and a column of the result, as one; `chain`: roundings that a term of a sum goes
// through
inline Values folded(const Space& s, long long rows, long long columns, Fold fold, double chain, const Values& x) {
  if (fold == Fold::max || fold == Fold::min) return largest(s, rows, columns, x, fold == Fold::max ? 1 : -1);
  const double points = double(s.rows()) / double(rows) * double(s.columns) / double(columns);
  const double u = 0x1p-24 * std::min(chain, points + 4);
  const double scale = fold == Fold::sum || fold == Fold::sum_squares ? 1 : 1 / points;
  Values result(rows, columns), size(rows, columns);
  over_all(s, result, x, [&](size_t to, double v, double e) {
    const double term = fold == Fold::sum_squares ? v * v : v;
    const double off = fold == Fold::sum_squares ? (2 * fabs(v) + e) * e : e;
    result.value[to] += scale * term, result.error[to] += scale * off, size.value[to] += scale * (fabs(term) + off);
  });
  for (size_t i = 0; i < result.value.size(); ++i) result.error[i] += u * size.value[i] + 0x1p-120;
  return fold == Fold::variance ? spread(s, result, points, u, x) : result;
}

// What waits for statistics in a type with that roundoff, centred by the mean of some of the values that share a row
// and a column of that many: each is off by that times the range of those values
inline Values waited(const Space& s, long long rows, long long columns, double roundoff, Values x) {
  const Values high = folded(s, rows, columns, Fold::max, 0, x), low = folded(s, rows, columns, Fold::min, 0, x);
  for (long long row = 0; row < s.rows(); ++row)
    for (long long column = 0; column < s.columns; ++column) {
      const size_t at = high.at(s, row, column);
      x.error[x.at(s, row, column)] += roundoff * (high.value[at] - low.value[at]);
    }
  return x;
}

// What waits for reductions in a type with that roundoff, as it is
inline Values rounded_apart(double roundoff, Values x) {
  for (size_t i = 0; i < x.value.size(); ++i) x.error[i] += roundoff * (std::fabs(x.value[i]) + x.error[i]);
  return x;
}

}  // namespace unisono::emitted
