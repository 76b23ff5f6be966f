#include <algorithm>

#include "unisono/graph.hpp"

namespace unisono {

Axes join(const Axes& x, const Axes& y) {
  Axes r;
  r.row = std::max(x.row, y.row);
  r.col = std::max(x.col, y.col);
  if (r.col != ColAxis::g) return r;
  const bool clash = x.col == ColAxis::g && y.col == ColAxis::g && x.groups != y.groups;
  if (clash) return {r.row, ColAxis::n, 0};
  r.groups = x.col == ColAxis::g ? x.groups : y.groups;
  return r;
}

bool broadcasts_to(const Axes& from, const Axes& to) { return join(from, to) == to; }

std::string to_string(const Axes& a) {
  std::string s = "[";
  if (a.row != RowAxis::none) s += a.row == RowAxis::m ? "m" : "b";
  if (a.col != ColAxis::none) {
    if (s.size() > 1) s += ",";
    s += a.col == ColAxis::n ? "n" : "g" + std::to_string(a.groups);
  }
  return s + "]";
}

Axes reduced_axes(const ReduceDomain& d) {
  Axes r;
  r.row = !d.rows ? RowAxis::m : d.per_image ? RowAxis::b : RowAxis::none;
  r.col = !d.cols ? ColAxis::n : d.groups > 1 ? ColAxis::g : ColAxis::none;
  r.groups = r.col == ColAxis::g ? d.groups : 0;
  return r;
}

}  // namespace unisono
