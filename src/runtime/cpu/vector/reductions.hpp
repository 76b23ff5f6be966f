// Reductions of a block over its rows, and of rows to one value each.
#pragma once

#include "functions.hpp"
#include "unit.hpp"

namespace UNISONO_UNIT {

namespace {

using unisono::cpu::AccumulateArgs;
using unisono::cpu::RowArgs;

// ---- Reductions over the rows of a block ----

// Σ term(x) of lane `at`
template <auto term>
inline F column_sum(const AccumulateArgs& a, size_t at, size_t n, F shift) {
  F even = {}, odd = {};  // two chains, so that one addition need not wait for the one before
  size_t j = 0;
  for (; j + 2 <= a.repeats; j += 2) {
    even += term(load_upto<F>(a.block + j * a.period + at, n) - shift);
    odd += term(load_upto<F>(a.block + (j + 1) * a.period + at, n) - shift);
  }
  if (j < a.repeats) even += term(load_upto<F>(a.block + j * a.period + at, n) - shift);
  return even + odd;
}

constexpr auto itself = [](F x) { return x; };
constexpr auto squared = [](F x) { return x * x; };

template <auto term>
void accumulate_sum(const AccumulateArgs& a) {
  for_vectors<F>(a.lanes, [&](size_t i, size_t n) {
    const F before = a.collected == 0 ? F{} : load_upto<F>(a.first + i, n);
    store_upto<F>(a.first + i, before + column_sum<term>(a, i, n, F{}), n);
  });
}

void accumulate_moments(const AccumulateArgs& a) {
  const float old = static_cast<float>(a.collected), fresh = static_cast<float>(a.repeats);
  const float weight = fresh / (old + fresh), inverse = 1 / fresh;
  for_vectors<F>(a.lanes, [&](size_t i, size_t n) {
    F mean = a.repeats == 1 ? load_upto<F>(a.block + i, n) : column_sum<itself>(a, i, n, F{}) * inverse;
    F squares = a.repeats == 1 ? F{} : column_sum<squared>(a, i, n, mean);
    if (a.collected > 0) {
      const F before = load_upto<F>(a.first + i, n), delta = mean - before;
      mean = multiply_add(delta, splat<F>(weight), before);
      squares = load_upto<F>(a.second + i, n) + squares + delta * delta * (old * weight);
    }
    store_upto<F>(a.first + i, mean, n);
    store_upto<F>(a.second + i, squares, n);
  });
}

template <auto choose>
void accumulate_extreme(const AccumulateArgs& a) {
  for_vectors<F>(a.lanes, [&](size_t i, size_t n) {
    F best = load_upto<F>(a.collected == 0 ? a.block + i : a.first + i, n);
    for (size_t j = 0; j < a.repeats; ++j) best = choose(best, load_upto<F>(a.block + j * a.period + i, n));
    store_upto<F>(a.first + i, best, n);
  });
}

// ---- Reductions of rows ----

template <auto term>
inline float row_sum(const float* x, size_t width, float shift) {
  F sum = {};
  size_t i = 0;
  for (; i + lanes_of<F> <= width; i += lanes_of<F>) sum += term(load<F>(x + i) - shift);
  float total = 0;
  if (i > 0)
    for (size_t k = 0; k < lanes_of<F>; ++k) total += sum[k];
  for (; i < width; ++i) total += term(splat<F>(static_cast<double>(x[i] - shift)))[0];
  return total;
}

template <auto choose>
inline float row_extreme(const float* x, size_t width) {
  size_t i = 0;
  float best = x[0];
  if (width >= lanes_of<F>) {
    F v = load<F>(x);
    for (i = lanes_of<F>; i + lanes_of<F> <= width; i += lanes_of<F>) v = choose(v, load<F>(x + i));
    best = v[0];
    for (size_t k = 1; k < lanes_of<F>; ++k) best = choose(splat<F>(v[k]), splat<F>(best))[0];
  }
  for (; i < width; ++i) best = choose(splat<F>(x[i]), splat<F>(best))[0];
  return best;
}

template <class Row>
inline void for_rows(const RowArgs& a, Row row) {
  for (size_t r = 0; r < a.rows; ++r) a.result[r] = row(a.source + r * a.width);
}

constexpr auto the_larger = [](F x, F y) { return larger(x, y); };
constexpr auto the_smaller = [](F x, F y) { return smaller(x, y); };

void rows_sum(const RowArgs& a) {
  for_rows(a, [&](const float* x) { return row_sum<itself>(x, a.width, 0); });
}
void rows_mean(const RowArgs& a) {
  for_rows(a, [&](const float* x) { return row_sum<itself>(x, a.width, 0) / static_cast<float>(a.width); });
}
void rows_sum_squares(const RowArgs& a) {
  for_rows(a, [&](const float* x) { return row_sum<squared>(x, a.width, 0); });
}
void rows_variance(const RowArgs& a) {
  const float width = static_cast<float>(a.width);
  for_rows(
      a, [&](const float* x) { return row_sum<squared>(x, a.width, row_sum<itself>(x, a.width, 0) / width) / width; });
}
void rows_largest(const RowArgs& a) {
  for_rows(a, [&](const float* x) { return row_extreme<the_larger>(x, a.width); });
}
void rows_smallest(const RowArgs& a) {
  for_rows(a, [&](const float* x) { return row_extreme<the_smaller>(x, a.width); });
}

}  // namespace

}  // namespace UNISONO_UNIT
