// Matrices moved in memory: rows copied, and transposed by squares of vectors.
#pragma once

#include <utility>

#include "lanes.hpp"

namespace UNISONO_UNIT {

namespace {

void copy_rows(const float* from, ptrdiff_t from_pitch, float* to, ptrdiff_t to_pitch, size_t rows, size_t cols) {
  for (size_t i = 0; i < rows; ++i, from += from_pitch, to += to_pitch)
    for_vectors<F>(cols, [&](size_t j, size_t n) { store_upto<F>(to + j, load_upto<F>(from + j, n), n); });
}

// a[0] b[0] a[1] b[1] … of the lower or the upper halves
template <bool upper, size_t... i>
inline F interleave(F a, F b, std::index_sequence<i...>) {
  constexpr size_t n = sizeof...(i), first = upper ? n / 2 : 0;
  return __builtin_shufflevector(a, b, static_cast<int>(first + i / 2 + (i % 2 ? n : 0))...);
}

// A square of as many rows as a vector has lanes, into registers. Interleaving row i with row i + lanes / 2 moves the
// top bit of the column's number to the bottom of the row's and the row's top bit to the bottom of the column's; so
// often repeated as these numbers have bits, it exchanges them.
struct Square {
  F rows[lanes_of<F>];
};
inline Square transposed_square(const float* from, ptrdiff_t from_pitch) {
  constexpr size_t n = lanes_of<F>;
  constexpr auto lanes = std::make_index_sequence<n>();
  Square s;
  F next[n];
#pragma GCC unroll 16
  for (size_t i = 0; i < n; ++i) s.rows[i] = load<F>(from + static_cast<ptrdiff_t>(i) * from_pitch);
#pragma GCC unroll 4
  for (size_t bit = 1; bit < n; bit *= 2) {
#pragma GCC unroll 16
    for (size_t i = 0; i < n / 2; ++i) {
      next[2 * i] = interleave<false>(s.rows[i], s.rows[i + n / 2], lanes);
      next[2 * i + 1] = interleave<true>(s.rows[i], s.rows[i + n / 2], lanes);
    }
#pragma GCC unroll 16
    for (size_t i = 0; i < n; ++i) s.rows[i] = next[i];
  }
  return s;
}

// Each cache line is touched once on either side: lines that lie a power of two apart compete for the same places.
template <bool stream>
inline void transpose_square(const float* from, ptrdiff_t from_pitch, float* to, ptrdiff_t to_pitch) {
  const Square s = transposed_square(from, from_pitch);
#pragma GCC unroll 16
  for (size_t j = 0; j < lanes_of<F>; ++j) {
    float* const row = to + static_cast<ptrdiff_t>(j) * to_pitch;
    if constexpr (stream)
      store_past_caches(row, s.rows[j]);
    else
      store<F>(row, s.rows[j]);
  }
}

// Stores the lanes [first, last) of each row of the result
void transpose_square_part(const float* from, ptrdiff_t from_pitch, float* to, ptrdiff_t to_pitch, size_t first,
                           size_t last) {
  const Square s = transposed_square(from, from_pitch);
  for (size_t j = 0; j < lanes_of<F>; ++j)
    store_lanes(to + static_cast<ptrdiff_t>(j) * to_pitch, s.rows[j], first, last);
}

// Rows and columns that fill no square
struct Elements {
  const float* from;
  ptrdiff_t from_pitch;
  float* to;
  ptrdiff_t to_pitch;

  void operator()(size_t first, size_t last, size_t first_col, size_t cols) const {
    for (size_t i = first; i < last; ++i)
      for (size_t j = first_col; j < cols; ++j)
        to[static_cast<ptrdiff_t>(j) * to_pitch + static_cast<ptrdiff_t>(i)] =
            from[static_cast<ptrdiff_t>(i) * from_pitch + static_cast<ptrdiff_t>(j)];
  }
};

// Vector `part` of three rows side by side: a[0] b[0] c[0] a[1] b[1] …
template <size_t part, size_t... i>
inline F three_side_by_side(F a, F b, F c, std::index_sequence<i...>) {
  constexpr size_t n = sizeof...(i), first = part * n;
  const F ab = __builtin_shufflevector(a, b, static_cast<int>((first + i) / 3 + ((first + i) % 3 == 1 ? n : 0))...);
  return __builtin_shufflevector(ab, c, static_cast<int>((first + i) % 3 == 2 ? n + (first + i) / 3 : i)...);
}

// Three rows to pixels of three channels: images in colour
inline void transpose_three(const float* from, ptrdiff_t from_pitch, float* to, size_t cols) {
  constexpr size_t n = lanes_of<F>;
  constexpr auto lanes = std::make_index_sequence<n>();
  size_t j = 0;
  for (; j + n <= cols; j += n, to += 3 * n) {
    const F a = load<F>(from + j), b = load<F>(from + from_pitch + static_cast<ptrdiff_t>(j)),
            c = load<F>(from + 2 * from_pitch + static_cast<ptrdiff_t>(j));
    store<F>(to, three_side_by_side<0>(a, b, c, lanes));
    store<F>(to + n, three_side_by_side<1>(a, b, c, lanes));
    store<F>(to + 2 * n, three_side_by_side<2>(a, b, c, lanes));
  }
  for (; j < cols; ++j, to += 3)
    for (ptrdiff_t i = 0; i < 3; ++i) to[i] = from[i * from_pitch + static_cast<ptrdiff_t>(j)];
}

// The side whose lines lie further apart is walked along its lines, so that few streams are open at once. Squares stand
// on whole lines of `to` if all its rows lie alike on them: a vector across two lines costs twice.
template <bool stream>
void transpose(const float* from, ptrdiff_t from_pitch, float* to, ptrdiff_t to_pitch, size_t rows, size_t cols) {
  if (!stream && rows == 3 && to_pitch == 3) return transpose_three(from, from_pitch, to, cols);
  constexpr size_t n = lanes_of<F>;
  const auto at = [](size_t i) { return static_cast<ptrdiff_t>(i); };
  const size_t beyond = reinterpret_cast<size_t>(to) / sizeof(float) % n;
  const bool alike = reinterpret_cast<size_t>(to) % sizeof(float) == 0 && to_pitch % at(n) == 0;
  const size_t head = alike && beyond != 0 && rows >= 2 * n ? n - beyond : 0;
  const size_t squares = rows < n ? 0 : (rows - head) / n, end = squares == 0 ? 0 : head + squares * n;
  const bool past = stream && alike && (beyond == 0 || head != 0);
  const auto square = [&](size_t i, size_t j) {
    const float* const source = from + at(i) * from_pitch + at(j);
    float* const target = to + at(j) * to_pitch + at(i);
    if (past)
      transpose_square<true>(source, from_pitch, target, to_pitch);
    else
      transpose_square<false>(source, from_pitch, target, to_pitch);
  };
  const size_t whole_cols = cols - cols % n;
  const auto edge = [&](size_t i, size_t j, size_t first, size_t last) {  // a part of the square (i, j)
    if (first < last)
      transpose_square_part(from + at(i) * from_pitch + at(j), from_pitch, to + at(j) * to_pitch + at(i), to_pitch,
                            first, last);
  };
  if (to_pitch > from_pitch) {
    for (size_t j = 0; j < whole_cols; j += n) {
      edge(0, j, 0, head);
      for (size_t i = head; i < end; i += n) square(i, j);
      if (end != 0) edge(rows - n, j, n - (rows - end), n);
    }
  } else {
    for (size_t j = 0; j < whole_cols; j += n) edge(0, j, 0, head);
    for (size_t i = head; i < end; i += n)
      for (size_t j = 0; j < whole_cols; j += n) square(i, j);
    for (size_t j = 0; end != 0 && j < whole_cols; j += n) edge(rows - n, j, n - (rows - end), n);
  }
  const Elements elements{from, from_pitch, to, to_pitch};
  elements(0, rows, whole_cols, cols);
  if (end == 0) elements(0, rows, 0, whole_cols);
}

}  // namespace

}  // namespace UNISONO_UNIT
