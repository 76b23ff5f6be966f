/// Elementwise operators.

#include <cmath>
#include <limits>

#include "network/onnx/importer.hpp"

namespace coda::network::onnx_import {

namespace {

void finish(const NodeReader& node, Op op, const std::vector<NetworkValue>& inputs, Attributes attr = {}) {
  node.result(node.apply(operators::Elementwise{.op = op, .attr = std::move(attr)}, inputs));
}

template <Op op>
void unary(const NodeReader& node) {
  finish(node, op, {node.value(0)});
}

template <Op op>
void binary(const NodeReader& node) {
  if (import_integer_arithmetic(node)) return;
  finish(node, op, {node.value(0), node.value(1)});
}

// Sum, Max, Min: one input or more
template <Op op>
void variadic(const NodeReader& node) {
  NetworkValue v = node.value(0);
  for (int i = 1; i < node.inputs(); ++i) v = node.apply(operators::Elementwise{.op = op}, {v, node.value(i)});
  node.result(v);
}

// An activation with the attributes alpha and beta
template <Op op, int alpha_micro, int beta_micro = 0>
void activation(const NodeReader& node) {
  Attributes a;
  a.alpha = node.real("alpha", alpha_micro * 1e-6);
  if (beta_micro != 0) a.beta = node.real("beta", beta_micro * 1e-6);
  finish(node, op, {node.value(0)}, std::move(a));
}

void import_clip(const NodeReader& node) {
  Attributes a;
  const auto bound = [&](int i, std::string_view name, double otherwise) {
    if (!node.has(i)) return otherwise;
    const auto& c = node.needed_constant(i, name);
    if (c.size() != 1) node.fail("{} has {} elements; expected a scalar", name, c.size());
    return static_cast<double>(c[0]);
  };
  a.lower = bound(1, "min", -std::numeric_limits<double>::infinity());
  a.upper = bound(2, "max", std::numeric_limits<double>::infinity());
  // the specification: where min is above max, every element becomes max
  a.lower = std::min(a.lower, a.upper);
  finish(node, Op::clamp, {node.value(0)}, std::move(a));
}

void import_pow(const NodeReader& node) {
  const auto& exponent = node.needed_constant(1, "the exponent");
  if (exponent.size() == 1 && exponent[0] == 2) return finish(node, Op::square, {node.value(0)});
  if (exponent.size() == 1 && exponent[0] == 0.5f) return finish(node, Op::sqrt, {node.value(0)});
  finish(node, Op::pow, {node.value(0), node.value(1)});
}

void import_gelu(const NodeReader& node) {
  const std::string approximate = node.text("approximate", "none");
  if (approximate != "none" && approximate != "tanh")
    node.fail("approximate is '{}'; expected none or tanh", approximate);
  finish(node, approximate == "none" ? Op::gelu : Op::gelu_tanh, {node.value(0)});
}

// Celu, Selu and the like are left to a later table; HardSwish is alpha 1/6, beta 1/2 by definition
constexpr OperatorRow elementwise_table[] = {
    {"Abs", 1, unary<Op::abs>},
    {"Add", 7, binary<Op::add>},
    {"Clip", 11, import_clip},
    {"Cos", 7, unary<Op::cos>},
    {"Div", 7, binary<Op::div>},
    {"Elu", 1, activation<Op::elu, 1'000'000>},
    {"Erf", 9, unary<Op::erf>},
    {"Exp", 1, unary<Op::exp>},
    {"Gelu", 20, import_gelu},
    {"HardSigmoid", 1, activation<Op::hardsigmoid, 200'000, 500'000>},
    {"HardSwish", 14, unary<Op::hardswish>},
    {"LeakyRelu", 1, activation<Op::leaky_relu, 10'000>},
    {"Log", 1, unary<Op::log>},
    {"Max", 8, variadic<Op::max>},
    {"Min", 8, variadic<Op::min>},
    {"Mish", 18, unary<Op::mish>},
    {"Mul", 7, binary<Op::mul>},
    {"Neg", 1, unary<Op::neg>},
    {"Pow", 7, import_pow},
    {"Reciprocal", 1, unary<Op::reciprocal>},
    {"Relu", 1, unary<Op::relu>},
    {"Sigmoid", 1, unary<Op::sigmoid>},
    {"Sin", 7, unary<Op::sin>},
    {"Softplus", 1, unary<Op::softplus>},
    {"Sqrt", 1, unary<Op::sqrt>},
    {"Sub", 7, binary<Op::sub>},
    {"Sum", 8, variadic<Op::add>},
    {"Tanh", 1, unary<Op::tanh>},
};

}  // namespace

std::span<const OperatorRow> elementwise_rows() { return elementwise_table; }

}  // namespace coda::network::onnx_import
