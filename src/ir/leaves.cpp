#include "ir/leaves.hpp"

#include "ir/attributes.hpp"

namespace unisono::ir {

bool is_operand_axes(const Axes& a) {
  if (a.col == ColAxis::g) return a.row != RowAxis::m && a.groups > 1 && a.groups <= most_groups;
  return a == axes::scalar || a == axes::b || a == axes::m || a == axes::n || a == axes::bn || a == axes::mn;
}

DType operand_dtype(std::optional<DType> storage) {
  const bool as_stored = storage && (*storage == DType::f64 || !is_float(*storage));
  return as_stored ? *storage : DType::f32;
}

bool is_default_of(double value, std::optional<DType> storage) {
  return !storage || is_float(*storage) || is_exact_in(value, *storage);
}

Axes coordinate_axes(Coordinate c) {
  switch (c) {
    case Coordinate::n: return axes::n;
    case Coordinate::b: return axes::b;
    case Coordinate::m:
    case Coordinate::h:
    case Coordinate::w: return axes::m;
  }
  return axes::scalar;
}

}  // namespace unisono::ir
