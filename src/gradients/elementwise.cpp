/// Elementwise operators: the column DERIVATIVE of the table of operations, written in operators of networks.

#include <map>

#include "gradients/derivative.hpp"
#include "gradients/values.hpp"
#include "ir/derivative.hpp"
#include "unisono/builder.hpp"
#include "unisono/error.hpp"

namespace unisono::autodiff {

namespace {

// A graph's nodes as operators of a network
class WrittenInOperators {
 public:
  WrittenInOperators(NetworkBuilder& net, std::map<ValueId, NetworkValue> given) : net_(net), made_(std::move(given)) {}

  NetworkValue of(Value v) {
    if (const auto found = made_.find(v.id()); found != made_.end()) return found->second;
    const Node node = v.node();  // a copy
    std::vector<NetworkValue> inputs;
    for (const ValueId id : node.inputs) inputs.push_back(of(Value(v.builder(), id)));
    const NetworkValue r = node.op == Op::constant ? net_.constant(node.attr.value) : applied(node, inputs);
    made_.emplace(v.id(), r);
    return r;
  }

 private:
  NetworkValue applied(const Node& node, const std::vector<NetworkValue>& inputs) const {
    switch (node.op) {
      case Op::less: return mapped(MapOp::less, inputs);
      case Op::less_equal: return mapped(MapOp::less_equal, inputs);
      case Op::greater: return mapped(MapOp::greater, inputs);
      case Op::greater_equal: return mapped(MapOp::greater_equal, inputs);
      case Op::equal: return mapped(MapOp::equal, inputs);
      case Op::logical_and: return mapped(MapOp::logical_and, inputs);
      case Op::logical_or: return mapped(MapOp::logical_or, inputs);
      case Op::logical_not: return mapped(MapOp::logical_not, inputs);
      case Op::select: return mapped(MapOp::select, inputs);
      default: return elementwise(node.op, inputs, node.attr);
    }
  }

  NetworkBuilder& net_;
  std::map<ValueId, NetworkValue> made_;
};

InputGradients by_table(Op op, const Attributes& attr, const Use& use) {
  GraphBuilder graph;
  std::map<ValueId, NetworkValue> given;
  std::vector<Value> in;
  for (std::size_t i = 0; i < use.in.size(); ++i) {
    in.push_back(graph.operand("x" + std::to_string(i), axes::mn));
    given.emplace(in.back().id(), use.in[i]);
  }
  const Value out = graph.node(op, in, attr), gradient = graph.operand("g", axes::mn);
  given.emplace(out.id(), use.out);
  given.emplace(gradient.id(), use.gradient);
  const auto all = ir::derivative(out, gradient);
  WrittenInOperators written(use.net, std::move(given));
  InputGradients result(use.in.size());
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i] && use.wanted[i]) result[i] = summed_to(written.of(*all[i]), extents_of(use.in[i]));
  return result;
}

// The operation of the table that a Map of floats is, too
std::optional<Op> same_operation(MapOp op) {
  switch (op) {
    case MapOp::add: return Op::add;
    case MapOp::sub: return Op::sub;
    case MapOp::mul: return Op::mul;
    case MapOp::div: return Op::div;
    case MapOp::pow: return Op::pow;
    case MapOp::min: return Op::min;
    case MapOp::max: return Op::max;
    case MapOp::neg: return Op::neg;
    case MapOp::abs: return Op::abs;
    case MapOp::sqrt: return Op::sqrt;
    case MapOp::exp: return Op::exp;
    case MapOp::log: return Op::log;
    case MapOp::sin: return Op::sin;
    case MapOp::cos: return Op::cos;
    case MapOp::tanh: return Op::tanh;
    case MapOp::erf: return Op::erf;
    default: return std::nullopt;
  }
}

// The slope of a Map of one operand; none: it is 0, or not known
std::optional<NetworkValue> slope_of(MapOp op, NetworkValue x, NetworkValue r) {
  switch (op) {
    case MapOp::tan: return square(r) + 1;
    case MapOp::asin: return rsqrt(1 - square(x));
    case MapOp::acos: return -rsqrt(1 - square(x));
    case MapOp::atan: return reciprocal(square(x) + 1);
    case MapOp::sinh: return mapped(MapOp::cosh, {x});
    case MapOp::cosh: return mapped(MapOp::sinh, {x});
    case MapOp::asinh: return rsqrt(square(x) + 1);
    case MapOp::acosh: return rsqrt(square(x) - 1);
    case MapOp::atanh: return reciprocal(1 - square(x));
    default: return std::nullopt;
  }
}

bool is_step(MapOp op) { return op == MapOp::sign || op == MapOp::floor || op == MapOp::ceil || op == MapOp::round; }

InputGradients of_choice(const Use& use) {
  InputGradients result(3);
  const NetworkValue zero = use.net.constant(0.0);
  if (use.wanted[1])
    result[1] = summed_to(mapped(MapOp::select, {use.in[0], use.gradient, zero}), extents_of(use.in[1]));
  if (use.wanted[2])
    result[2] = summed_to(mapped(MapOp::select, {use.in[0], zero, use.gradient}), extents_of(use.in[2]));
  return result;
}

}  // namespace

InputGradients derivative_of(const operators::Elementwise& e, const Use& use) { return by_table(e.op, e.attr, use); }

InputGradients derivative_of(const operators::Map& m, const Use& use) {
  // also to 16 bits: the gradient of what is rounded passes as it is
  if (m.op == MapOp::cast && is_float(use.in[0].dtype()) && size_of(use.in[0].dtype()) <= 4 && size_of(m.to) <= 4)
    return {use.gradient};
  if (use.out.dtype() != DType::f32)
    refuse_derivative(use,
                      "it computes in " + std::string(to_string(use.out.dtype())) + "; gradients are computed in f32");
  if (m.op == MapOp::select) return of_choice(use);
  if (const auto op = same_operation(m.op)) return by_table(*op, {}, use);
  if (is_step(m.op)) return {std::nullopt};
  if (const auto slope = slope_of(m.op, use.in[0], use.out)) return {use.gradient * *slope};
  refuse_derivative(use, to_string(OperatorKind(m)) + " has no derivative");
}

}  // namespace unisono::autodiff
