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

constexpr auto added = [](F x, F y) { return x + y; };

// Σ term(x - shift); four chains, so that one addition need not wait for the one before
template <auto term>
inline float row_sum(const float* x, size_t width, float shift) {
  constexpr size_t lanes = lanes_of<F>;
  const F s = splat<F>(static_cast<double>(shift));
  F sum[4] = {};
  size_t i = 0;
  for (; i + 4 * lanes <= width; i += 4 * lanes)
    for (size_t k = 0; k < 4; ++k) sum[k] += term(load<F>(x + i + k * lanes) - s);
  for (size_t k = 0; i + lanes <= width; i += lanes, ++k) sum[k] += term(load<F>(x + i) - s);
  if (i < width) sum[3] += term(load_part_or(x + i, width - i, s) - s);
  return joined<added>((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

template <auto choose>
inline float row_extreme(const float* x, size_t width) {
  constexpr size_t lanes = lanes_of<F>;
  const F first = splat<F>(static_cast<double>(x[0]));
  F best[2] = {first, first};
  size_t i = 0;
  for (; i + 2 * lanes <= width; i += 2 * lanes)
    for (size_t k = 0; k < 2; ++k) best[k] = choose(best[k], load<F>(x + i + k * lanes));
  if (i + lanes <= width) best[0] = choose(best[0], load<F>(x + i)), i += lanes;
  if (i < width) best[1] = choose(best[1], load_part_or(x + i, width - i, first));
  return joined<choose>(choose(best[0], best[1]));
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
