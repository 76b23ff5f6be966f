/// Activations that are written as arithmetic.

#include "network/onnx/importer.hpp"

namespace unisono::network::onnx_import {

namespace {

NetworkValue with_alpha(const NodeReader& node, Op op, NetworkValue x, double alpha) {
  Attributes a;
  a.alpha = alpha;
  return node.apply(operators::Elementwise{.op = op, .attr = std::move(a)}, {x});
}

NetworkValue scaled(const NodeReader& node, NetworkValue x, double factor) {
  return node.elementwise(Op::mul, {x, node.number_like(x, factor)});
}

// max(x, 0) + slope·min(x, 0)
void import_prelu(const NodeReader& node) {
  const NetworkValue x = node.value(0), zero = node.number_like(x, 0);
  const NetworkValue negative = node.elementwise(Op::mul, {node.value(1), node.elementwise(Op::min, {x, zero})});
  if (negative.shape() != x.shape())
    node.fail("the slope {} does not broadcast to {}", to_string(node.value(1).shape()), to_string(x.shape()));
  node.result(node.elementwise(Op::add, {node.elementwise(Op::relu, {x}), negative}));
}

void import_selu(const NodeReader& node) {
  const double alpha = node.real("alpha", 1.67326319217681884765625),
               gamma = node.real("gamma", 1.05070102214813232421875);
  node.result(scaled(node, with_alpha(node, Op::elu, node.value(0), alpha), gamma));
}

// min(α·(exp(z) − 1), 0) of z = min(x, 0)/α where α < 0, so that z ≥ 0: there exp(z) − 1 = −exp(z)·elu(−z), which keeps
// its digits near 0
NetworkValue below_zero(const NodeReader& node, NetworkValue x, double alpha) {
  const NetworkValue z = scaled(node, node.elementwise(Op::min, {x, node.number_like(x, 0)}), 1 / alpha);
  const NetworkValue grown = scaled(node, node.elementwise(Op::exp, {z}), -alpha);
  return node.elementwise(Op::mul, {grown, with_alpha(node, Op::elu, node.elementwise(Op::neg, {z}), 1)});
}

// max(x, 0) + min(α·(exp(x/α) − 1), 0); where α > 0, the second is α·elu(x/α)
void import_celu(const NodeReader& node) {
  const double alpha = node.real("alpha", 1);
  if (alpha == 0) node.fail("alpha is 0");
  const NetworkValue x = node.value(0);
  if (alpha == 1) return node.result(with_alpha(node, Op::elu, x, 1));
  if (alpha < 0)
    return node.result(node.elementwise(Op::add, {node.elementwise(Op::relu, {x}), below_zero(node, x, alpha)}));
  const NetworkValue zero = node.number_like(x, 0);
  const NetworkValue low = scaled(node, with_alpha(node, Op::elu, scaled(node, x, 1 / alpha), 1), alpha);
  node.result(node.elementwise(Op::add, {node.elementwise(Op::relu, {x}), node.elementwise(Op::min, {low, zero})}));
}

void import_softsign(const NodeReader& node) {
  const NetworkValue x = node.value(0);
  const NetworkValue below = node.elementwise(Op::add, {node.elementwise(Op::abs, {x}), node.number_like(x, 1)});
  node.result(node.elementwise(Op::div, {x, below}));
}

void import_thresholded_relu(const NodeReader& node) {
  const NetworkValue x = node.value(0), zero = node.number_like(x, 0);
  const NetworkValue above = node.map(MapOp::greater, {x, node.number_like(x, node.real("alpha", 1))});
  node.result(node.map(MapOp::select, {above, x, zero}));
}

constexpr OperatorRow activation_table[] = {{"Celu", 12, import_celu},
                                            {"PRelu", 7, import_prelu},
                                            {"Selu", 6, import_selu},
                                            {"Softsign", 1, import_softsign},
                                            {"ThresholdedRelu", 10, import_thresholded_relu}};

}  // namespace

std::span<const OperatorRow> activation_rows() { return activation_table; }

}  // namespace unisono::network::onnx_import
