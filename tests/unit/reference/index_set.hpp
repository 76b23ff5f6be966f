#pragma once
/// The index set (m, n) of one small convolution, and which of its points fall into the same result of a reduction.

#include <cstdint>

#include "reference/reference.hpp"
#include "unisono/contraction.hpp"

namespace unisono::reference::test {

// Three images of 2·2 pixels, 12 columns
inline const Conv2d conv{.n = 3, .h = 2, .w = 2, .c = 1, .k = 12};
inline constexpr std::int64_t images = 3, rows = 12, cols = 12, pixels = 4;

// Index of element (m, n) in a value, whatever its axes
inline std::int64_t place(const Values& v, std::int64_t m, std::int64_t n) {
  const std::int64_t row = v.axes.row == RowAxis::m ? m : v.axes.row == RowAxis::b ? m / pixels : 0;
  if (v.axes.col == ColAxis::n) return row * cols + n;
  if (v.axes.col == ColAxis::g) return row * v.axes.groups + n / (cols / v.axes.groups);
  return row;
}
inline double element(const Values& v, std::int64_t m, std::int64_t n) {
  return v.value.at(static_cast<std::size_t>(place(v, m, n)));
}

// Whether (m, n) and (i, j) fall into the same result
inline bool together(const ReduceDomain& d, std::int64_t m, std::int64_t n, std::int64_t i, std::int64_t j) {
  const bool row = !d.rows ? m == i : !d.per_image || m / pixels == i / pixels;
  const bool col = !d.cols ? n == j : n / (cols / d.groups) == j / (cols / d.groups);
  return row && col;
}

}  // namespace unisono::reference::test
