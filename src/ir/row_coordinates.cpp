#include "ir/row_coordinates.hpp"

namespace unisono::ir {

bool takes_default(const Axes& a) { return !(a == axes::mn); }

bool takes_rows(const Axes& a, RowCoordinates rows) {
  return rows == RowCoordinates::all || (a.row == RowAxis::m && a.col != ColAxis::g);
}

bool takes_strides(const Axes& a) { return a.row == RowAxis::m && a.col != ColAxis::g; }

std::string operand_axes(const Axes& a, RowCoordinates rows) {
  if (rows == RowCoordinates::all) return to_string(a);
  const std::string_view columns = a.col == ColAxis::n ? ",n" : "";
  const std::string_view of_row = rows == RowCoordinates::hw ? "h,w" : rows == RowCoordinates::h ? "h" : "w";
  return "[" + std::string(of_row) + std::string(columns) + "]";
}

std::vector<std::int64_t> operand_shape(const Axes& a, RowCoordinates rows, const Extents& e) {
  std::vector<std::int64_t> shape;
  if (rows == RowCoordinates::all) {
    if (a.row != RowAxis::none) shape.push_back(a.row == RowAxis::m ? e.rows() : e.images);
  } else {
    if (rows != RowCoordinates::w) shape.push_back(e.height);
    if (rows != RowCoordinates::h) shape.push_back(e.width);
  }
  if (a.col != ColAxis::none) shape.push_back(a.col == ColAxis::n ? e.cols : a.groups);
  return shape;
}

RowSteps operand_steps(const Axes& a, RowCoordinates rows, const std::vector<std::int64_t>& s, const Extents& e) {
  RowSteps steps;
  if (s.empty()) return steps;  // a scalar, or what is not bound
  if (a.col != ColAxis::none) steps.column = s.back();
  if (a.row != RowAxis::m) {
    if (a.row == RowAxis::b) steps.image = s[0];
    return steps;
  }
  switch (rows) {
    case RowCoordinates::all: steps = {e.rows_per_image() * s[0], e.width * s[0], s[0], steps.column}; break;
    case RowCoordinates::h: steps.row = s[0]; break;
    case RowCoordinates::w: steps.pixel = s[0]; break;
    case RowCoordinates::hw: steps.row = s[0], steps.pixel = s[1]; break;
  }
  return steps;
}

}  // namespace unisono::ir
