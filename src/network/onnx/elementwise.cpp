/// Elementwise operators.

#include <cmath>
#include <limits>

#include "network/onnx/importer.hpp"

namespace unisono::network::onnx_import {

namespace {

void finish(const NodeReader& node, Op op, const std::vector<NetworkValue>& inputs, Attributes attr = {}) {
  node.result(node.apply(operators::Elementwise{.op = op, .attr = std::move(attr)}, inputs));
}

// f32 has kernels that fuse; every other type is mapped
template <Op op>
void unary(const NodeReader& node) {
  finish(node, op, {node.value(0)});
}

template <Op op, MapOp other>
void unary_of_any(const NodeReader& node) {
  const NetworkValue x = node.value(0);
  if (x.dtype() == DType::f32) return finish(node, op, {x});
  node.result(node.map(other, {x}));
}

void import_relu(const NodeReader& node) {
  const NetworkValue x = node.value(0);
  if (x.dtype() == DType::f32) return finish(node, Op::relu, {x});
  node.result(node.map(MapOp::max, {x, node.number_like(x, 0)}));
}

void import_reciprocal(const NodeReader& node) {
  const NetworkValue x = node.value(0);
  if (x.dtype() != DType::f64) return finish(node, Op::reciprocal, {x});
  node.result(node.map(MapOp::div, {node.number_like(x, 1), x}));
}

// 1/(1 + exp(−x))
void import_sigmoid(const NodeReader& node) {
  const NetworkValue x = node.value(0);
  if (x.dtype() != DType::f64) return finish(node, Op::sigmoid, {x});
  const NetworkValue one = node.number_like(x, 1);
  const NetworkValue below = node.map(MapOp::exp, {node.map(MapOp::neg, {x})});
  node.result(node.map(MapOp::div, {one, node.map(MapOp::add, {one, below})}));
}

NetworkValue binary_of(const NodeReader& node, Op op, MapOp other, NetworkValue x, NetworkValue y) {
  if (x.dtype() == DType::f32 && y.dtype() == DType::f32) return node.elementwise(op, {x, y});
  return node.map(other, {x, y});
}

template <Op op, MapOp other>
void binary(const NodeReader& node) {
  if (import_integer_arithmetic(node)) return;
  node.result(binary_of(node, op, other, node.value(0), node.value(1)));
}

// Sum, Max, Min: one input or more
template <Op op, MapOp other>
void variadic(const NodeReader& node) {
  NetworkValue v = node.value(0);
  for (int i = 1; i < node.inputs(); ++i) v = binary_of(node, op, other, v, node.value(i));
  node.result(v);
}

// Sum before 8, and the binary operators before 7, did not broadcast as NumPy does: their rows start there

// An activation with the attributes alpha and beta
template <Op op, int alpha_micro, int beta_micro = 0>
void activation(const NodeReader& node) {
  Attributes a;
  a.alpha = node.real("alpha", alpha_micro * 1e-6);
  if (beta_micro != 0) a.beta = node.real("beta", beta_micro * 1e-6);
  finish(node, op, {node.value(0)}, std::move(a));
}

// Where min is above max, every element becomes max
void import_clip(const NodeReader& node) {
  const NetworkValue x = node.value(0);
  const bool constant =
      (!node.has(1) || node.value(1).tensor().is_constant()) && (!node.has(2) || node.value(2).tensor().is_constant());
  if (x.dtype() == DType::f32 && constant) {
    Attributes a;
    a.lower = node.has(1) ? node.needed_scalar(1, "min") : -std::numeric_limits<double>::infinity();
    a.upper = node.has(2) ? node.needed_scalar(2, "max") : std::numeric_limits<double>::infinity();
    a.lower = std::min(a.lower, a.upper);
    return finish(node, Op::clamp, {x}, std::move(a));
  }
  NetworkValue y = x;
  for (const int i : {1, 2})
    if (node.has(i) && !node.value(i).shape().empty())
      node.fail("input {} has shape {}; expected a scalar", i, to_string(node.value(i).shape()));
  if (node.has(1)) y = binary_of(node, Op::max, MapOp::max, y, node.value(1));
  if (node.has(2)) y = binary_of(node, Op::min, MapOp::min, y, node.value(2));
  node.result(y);
}

// The result has the type of the base
void import_pow(const NodeReader& node) {
  const NetworkValue x = node.value(0), y = node.value(1);
  if (x.dtype() != DType::f32) {
    if (x.dtype() == y.dtype()) return node.result(node.map(MapOp::pow, {x, y}));
    if (!is_float(x.dtype()) && !is_float(y.dtype()))
      return node.result(node.map(MapOp::pow, {x, node.cast(y, x.dtype())}));
    return node.result(
        node.cast(node.map(MapOp::pow, {node.cast(x, DType::f64), node.cast(y, DType::f64)}), x.dtype()));
  }
  const NetworkValue exponent = node.cast(y, DType::f32);
  if (const auto c = exponent.tensor().constant; c && exponent.shape().size() <= x.shape().size() && c->size() == 1) {
    if (c->front() == 2) return finish(node, Op::square, {x});
    if (c->front() == 0.5f) return finish(node, Op::sqrt, {x});
  }
  finish(node, Op::pow, {x, exponent});
}

void import_gelu(const NodeReader& node) {
  const std::string approximate = node.text("approximate", "none");
  if (approximate != "none" && approximate != "tanh")
    node.fail("approximate is '{}'; expected none or tanh", approximate);
  finish(node, approximate == "none" ? Op::gelu : Op::gelu_tanh, {node.value(0)});
}

// The column ONNX of the table of operations. HardSwish is alpha 1/6, beta 1/2 by definition
constexpr OperatorRow elementwise_table[] = {
#define ONNX(...) __VA_ARGS__,
#define UNISONO_ELEMENTWISE(NAME, ...) __VA_ARGS__
#include "ir/operations.inc"
};

}  // namespace

std::span<const OperatorRow> elementwise_rows() { return elementwise_table; }

}  // namespace unisono::network::onnx_import
