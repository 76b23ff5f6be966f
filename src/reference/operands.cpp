#include "reference/operands.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "reference/strided.hpp"
#include "unisono/error.hpp"

namespace unisono::reference {

namespace {

// The node's dtype may be unable to hold what was bound: an f64 tensor or number in an f32 node
void set_bounds(Term& t) {
  const bool single = t.dtype != DType::f64;
  for (std::int64_t i = 0; i < t.size(); ++i) {
    const bool exact = !single || !(static_cast<double>(static_cast<float>(t.v[i])) != t.v[i]) || std::isnan(t.v[i]);
    t.bounds()[i] = exact ? 0 : 0x1p-24 * std::abs(t.v[i]);
  }
}

Term number(const Node& node, double value, const Space& space, const char* source) {
  if (node.dtype == DType::i32 && (value != std::trunc(value) || std::abs(value) > 0x1p31 || value == 0x1p31))
    throw UserError(fmt::format("operand {} has dtype i32 and was given the {} {}; expected an integer of 32 bits",
                                node.attr.name, source, value));
  Term t(space, node.axes, node.dtype);
  std::fill_n(t.values(), t.size(), node.dtype == DType::boolean ? (value != 0 ? 1.0 : 0.0) : value);
  set_bounds(t);
  if (node.dtype == DType::i32) std::fill_n(t.bounds(), t.size(), 0.0);
  return t;
}

void check_storage(const Node& node, const ConstTensorView& view) {
  if (node.attr.storage && view.dtype != *node.attr.storage)
    throw UserError(fmt::format("operand {} is declared {} and was given a tensor of {}; convert it or declare it so",
                                node.attr.name, to_string(*node.attr.storage), to_string(view.dtype)));
}

// Where the element of row i of all images lies among the rows of an operand that has these coordinates of them
std::int64_t row_in_memory(RowCoordinates rows, std::int64_t i, const Extents& e) {
  const std::int64_t h = i / e.width % e.height, w = i % e.width;
  switch (rows) {
    case RowCoordinates::h: return h;
    case RowCoordinates::w: return w;
    case RowCoordinates::hw: return h * e.width + w;
    case RowCoordinates::all: break;
  }
  return i;
}

// An operand that is repeated along the coordinates of rows that it lacks
void gather_repeated(const Strided& from, RowCoordinates rows, const Space& space, Term& t) {
  std::vector<double> memory(static_cast<std::size_t>(element_count(from.extent)));
  gather(from, memory.data());
  const std::int64_t columns = t.cols;
  for (std::int64_t i = 0; i < t.rows; ++i)
    std::copy_n(memory.begin() + row_in_memory(rows, i, space.extents) * columns, columns, t.values() + i * columns);
}

}  // namespace

Strided canonical(Strided view, const Axes& axes, const Contraction& contraction) {
  if (!(axes == axes::mn)) return view;
  const bool nchw = std::visit(
      [](const auto& c) {
        if constexpr (requires { c.layout; }) return c.layout == Layout::nchw;
        return false;
      },
      contraction);
  return nchw ? view.permuted({0, 2, 3, 1}) : view;
}

Term load_operand(const Node& node, const Arguments& arguments, const Contraction& contraction, const Space& space) {
  const std::string& name = node.attr.name;
  const auto tensor = arguments.operands.find(name);
  const auto scalar = arguments.scalars.find(name);
  const bool is_scalar = node.axes == axes::scalar;
  if (tensor != arguments.operands.end() && scalar != arguments.scalars.end())
    throw UserError(fmt::format("operand {} is bound twice: as a tensor and as a number", name));
  if (scalar != arguments.scalars.end()) {
    if (!is_scalar)
      throw UserError(fmt::format("operand {}{} was given the number {}; bind a tensor of shape {}", name,
                                  to_string(node.axes), scalar->second, to_string(node.axes)));
    return number(node, scalar->second, space, "number");
  }
  if (tensor == arguments.operands.end()) {
    if (node.attr.default_value) return number(node, *node.attr.default_value, space, "default");
    throw UserError(fmt::format("operand {}{} is not bound; give {} in Arguments::operands{}", name,
                                to_string(node.axes), is_scalar ? "it" : "a tensor",
                                is_scalar ? " or Arguments::scalars" : ""));
  }
  const ConstTensorView& view = tensor->second;
  check_storage(node, view);
  auto shape = shape_of(node, contraction);
  if (is_scalar && view.shape == std::vector<std::int64_t>{1}) shape = {1};
  const Strided strided = checked(view, shape, fmt::format("operand {}{}", name, to_string(node.axes)));
  Term t(space, node.axes, node.dtype);
  if (node.attr.rows == RowCoordinates::all)
    gather(canonical(strided, node.axes, contraction), t.values());
  else
    gather_repeated(strided, node.attr.rows, space, t);
  if (node.dtype == DType::i32 || node.dtype == DType::boolean) {
    std::fill_n(t.bounds(), t.size(), 0.0);
  } else {
    set_bounds(t);
  }
  return t;
}

Term load_index(const Node& node, const Space& space) {
  const Extents& e = space.extents;
  Term t(space, node.axes, DType::i32);
  std::fill_n(t.bounds(), t.size(), 0.0);
  for (std::int64_t i = 0; i < t.size(); ++i) {
    std::int64_t c = i;  // m, n, b
    if (node.attr.coordinate == Coordinate::h) c = i % e.rows_per_image() / e.width;
    if (node.attr.coordinate == Coordinate::w) c = i % e.width;
    t.values()[i] = static_cast<double>(c);
  }
  return t;
}

Term load_extent(const Node& node, const Space& space) {
  const Extents& e = space.extents;
  Term t(space, axes::scalar, DType::i32);
  t.bounds()[0] = 0;
  switch (node.attr.coordinate) {
    case Coordinate::m: t.values()[0] = static_cast<double>(e.rows()); break;
    case Coordinate::n: t.values()[0] = static_cast<double>(e.cols); break;
    case Coordinate::b: t.values()[0] = static_cast<double>(e.images); break;
    case Coordinate::h: t.values()[0] = static_cast<double>(e.height); break;
    case Coordinate::w: t.values()[0] = static_cast<double>(e.width); break;
  }
  return t;
}

}  // namespace unisono::reference
