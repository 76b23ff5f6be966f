/// Elementwise operators that are written out in several maps: tests of floats, shifts of bits and Shrink.

#include <limits>

#include "network/onnx/importer.hpp"

namespace unisono::network::onnx_import {

namespace {

// A NaN is what does not equal itself
void import_is_nan(const NodeReader& node) {
  const NetworkValue x = node.value(0);
  node.result(node.map(MapOp::logical_not, {node.map(MapOp::equal, {x, x})}));
}

void import_is_inf(const NodeReader& node) {
  const NetworkValue x = node.value(0);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const bool above = node.integer("detect_positive", 1) != 0, below = node.integer("detect_negative", 1) != 0;
  const auto is = [&](double value) { return node.map(MapOp::equal, {x, node.number_like(x, value)}); };
  if (above && below) return node.result(node.map(MapOp::logical_or, {is(infinity), is(-infinity)}));
  if (above || below) return node.result(is(above ? infinity : -infinity));
  node.result(is(std::numeric_limits<double>::quiet_NaN()));  // nothing is
}

void import_bit_shift(const NodeReader& node) {
  const std::string direction = node.text("direction", "");
  if (direction != "LEFT" && direction != "RIGHT") node.fail("direction is '{}'; expected LEFT or RIGHT", direction);
  node.result(node.map(direction == "LEFT" ? MapOp::shift_left : MapOp::shift_right, node.values(2)));
}

// x + bias below −lambd, x − bias above lambd, 0 in between
void import_shrink(const NodeReader& node) {
  const NetworkValue given = node.value(0);
  const bool floats = is_float(given.dtype());
  const NetworkValue x = floats ? given : node.cast(given, DType::f64);
  const double lambd = node.real("lambd", 0.5), bias = node.real("bias", 0);
  const auto number = [&](double value) { return node.number_like(x, value); };
  const NetworkValue low = node.map(MapOp::add, {x, number(bias)}), high = node.map(MapOp::sub, {x, number(bias)});
  const NetworkValue above = node.map(MapOp::greater, {x, number(lambd)}),
                     below = node.map(MapOp::less, {x, number(-lambd)});
  const NetworkValue y = node.map(MapOp::select, {below, low, node.map(MapOp::select, {above, high, number(0)})});
  node.result(node.cast(y, given.dtype()));
}

constexpr OperatorRow function_table[] = {{"BitShift", 11, import_bit_shift},
                                          {"IsInf", 10, import_is_inf},
                                          {"IsNaN", 9, import_is_nan},
                                          {"Shrink", 9, import_shrink}};

}  // namespace

std::span<const OperatorRow> function_rows() { return function_table; }

}  // namespace unisono::network::onnx_import
