#include "coda/builder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "coda/error.hpp"
#include "ir/infer.hpp"
#include "ir/names.hpp"
#include "ir/op_table.hpp"

namespace coda {

namespace {

Axes coordinate_axes(Coordinate c) {
  switch (c) {
    case Coordinate::n: return axes::n;
    case Coordinate::b: return axes::b;
    default: return axes::m;
  }
}

Node leaf(Op op, DType dtype, Axes a) {
  Node node;
  node.op = op;
  node.dtype = dtype;
  node.axes = a;
  return node;
}

// Index of the leaf equal to `node`, appending it if the graph has none: leaves are unique in a builder
ValueId unique_leaf(Graph& graph, Node node) {
  for (ValueId i = 0; i < graph.nodes.size(); ++i) {
    const Node& old = graph.nodes[i];
    if (old.op == node.op && old.attr == node.attr && old.dtype == node.dtype && old.axes == node.axes) return i;
  }
  graph.nodes.push_back(std::move(node));
  return static_cast<ValueId>(graph.nodes.size() - 1);
}

}  // namespace

DType Value::dtype() const { return builder_->graph_[id_].dtype; }
const Axes& Value::axes() const { return builder_->graph_[id_].axes; }

Value Value::named(std::string name) const {
  ir::check_identifier(name, "value");
  builder_->graph_.nodes[id_].name = std::move(name);
  return *this;
}

Value GraphBuilder::acc() { return {*this, unique_leaf(graph_, leaf(Op::acc, DType::f32, axes::mn))}; }

Value GraphBuilder::operand(const std::string& name, Axes axes, OperandOptions options) {
  ir::check_identifier(name, "operand");
  if (axes.col == ColAxis::g)
    throw UserError(fmt::format("operand {} was given axes {}; expected one of [], [b], [m], [n], [b,n], [m,n]", name,
                                to_string(axes)));
  if (axes.row == RowAxis::b && axes.col == ColAxis::none && options.default_value)
    throw UserError(fmt::format("operand {}{} was given a default; only a scalar can have one", name, to_string(axes)));
  if (options.default_value && !(axes == axes::scalar))
    throw UserError(fmt::format("operand {}{} was given a default; only a scalar can have one", name, to_string(axes)));
  if (options.storage == DType::f8e4m3 || options.storage == DType::f8e5m2)
    throw UserError(
        fmt::format("operand {} was declared {}: the fp8 types are reserved", name, to_string(*options.storage)));
  for (ValueId i = 0; i < graph_.nodes.size(); ++i) {
    const Node& old = graph_.nodes[i];
    if (old.op != Op::operand || old.attr.name != name) continue;
    if (!(old.axes == axes))
      throw UserError(fmt::format("operand {}{} was used before as {}{}; one name has one set of axes", name,
                                  to_string(axes), name, to_string(old.axes)));
    if (options.storage != old.attr.storage && options.storage)
      throw UserError(fmt::format("operand {} was declared {} after its first use; declare it before", name,
                                  to_string(*options.storage)));
    return {*this, i};
  }
  Node node = leaf(Op::operand, DType::f32, axes);
  node.attr.name = name;
  node.attr.storage = options.storage;
  node.attr.default_value = options.default_value;
  if (const auto s = options.storage; s && (*s == DType::f64 || !is_float(*s))) node.dtype = *s;
  graph_.nodes.push_back(std::move(node));
  return {*this, static_cast<ValueId>(graph_.nodes.size() - 1)};
}

Value GraphBuilder::constant(double value) {
  Node node = leaf(Op::constant, DType::f32, axes::scalar);
  node.attr.value = value;
  if (std::isnan(value)) {  // NaN is unequal to itself, so it is never shared
    graph_.nodes.push_back(std::move(node));
    return {*this, static_cast<ValueId>(graph_.nodes.size() - 1)};
  }
  return {*this, unique_leaf(graph_, std::move(node))};
}

Value GraphBuilder::index(Coordinate c) {
  Node node = leaf(Op::index, DType::i32, coordinate_axes(c));
  node.attr.coordinate = c;
  return {*this, unique_leaf(graph_, std::move(node))};
}

Value GraphBuilder::extent(Coordinate c) {
  Node node = leaf(Op::extent, DType::i32, axes::scalar);
  node.attr.coordinate = c;
  return {*this, unique_leaf(graph_, std::move(node))};
}

void GraphBuilder::define(UserFunction function) {
  ir::check_identifier(function.name, "function");
  if (ir::op_from_name(function.name))
    throw UserError(fmt::format("function {} has the name of a built-in operation; choose another", function.name));
  if (function.arity < 0 || function.arity > 16)
    throw UserError(fmt::format("function {} was given arity {}; expected 0 to 16", function.name, function.arity));
  if (!function.cpu && function.cuda_source.empty())
    throw UserError(fmt::format("function {} has neither a CPU callable nor CUDA text", function.name));
  auto name = function.name;
  if (!graph_.functions.emplace(name, std::make_shared<const UserFunction>(std::move(function))).second)
    throw UserError(fmt::format("function {} is defined twice", name));
}

std::optional<Value> GraphBuilder::call(const std::string& function, const std::vector<Value>& inputs) {
  const auto it = graph_.functions.find(function);
  if (it == graph_.functions.end()) throw UserError(fmt::format("function {} is not defined in this graph", function));
  if (std::ssize(inputs) != it->second->arity)
    throw UserError(
        fmt::format("function {} was given {} inputs; expected {}", function, inputs.size(), it->second->arity));
  Attributes attr;
  attr.name = function;
  const Value v = node(Op::call, inputs, std::move(attr));
  if (it->second->returns_value) return v;
  graph_.effects.push_back(v.id());
  return std::nullopt;
}

void GraphBuilder::store(Value value, DType dtype, std::string name) {
  if (&value.builder() != this) throw UserError("store was given a value of another GraphBuilder");
  const Node& node = graph_[value.id()];
  if (node.op == Op::call && !graph_.functions.at(node.attr.name)->returns_value)
    throw UserError(fmt::format("store of {}, which returns nothing", node.attr.name));
  if (dtype == DType::f8e4m3 || dtype == DType::f8e5m2)
    throw UserError(fmt::format("store as {}: the fp8 types are reserved and cannot be written yet", to_string(dtype)));
  if (name.empty()) name = node.name.empty() ? fmt::format("out{}", graph_.stores.size()) : node.name;
  ir::check_identifier(name, "store");
  for (const Store& s : graph_.stores)
    if (s.name == name) throw UserError(fmt::format("store {} is written twice; give one of them another name", name));
  graph_.stores.push_back({value.id(), dtype, std::move(name)});
}

Value GraphBuilder::node(Op op, const std::vector<Value>& inputs, Attributes attr, std::optional<DType> requested) {
  std::vector<const Node*> types;
  Node result;
  for (const Value& v : inputs) {
    if (&v.builder() != this)
      throw UserError(fmt::format("{} was given a value of another GraphBuilder", to_string(op)));
    const Node& x = graph_[v.id()];
    if (x.op == Op::call && !graph_.functions.at(x.attr.name)->returns_value)
      throw UserError(fmt::format("{} was given the result of {}, which returns nothing", to_string(op), x.attr.name));
    types.push_back(&x);
    result.inputs.push_back(v.id());
  }
  const auto inferred = ir::infer(op, types, attr, requested);
  result.op = op;
  result.dtype = inferred.dtype;
  result.axes = inferred.axes;
  result.attr = std::move(attr);
  graph_.nodes.push_back(std::move(result));
  return {*this, static_cast<ValueId>(graph_.nodes.size() - 1)};
}

Graph GraphBuilder::build() const {
  if (graph_.stores.empty() && graph_.effects.empty())
    throw UserError("the graph stores nothing and calls nothing; add a store");
  verify(graph_);
  return graph_;
}

namespace {
Value with_alpha(Op op, Value x, double alpha, double beta = 0) {
  Attributes a;
  a.alpha = alpha;
  a.beta = beta;
  return x.builder().node(op, {x}, std::move(a));
}

Value reduce(Op op, Value x, ReduceDomain domain) {
  Attributes a;
  a.domain = domain;
  return x.builder().node(op, {x}, std::move(a));
}

Value normalise(Op op, Value x, const NormOptions& o) {
  Attributes a;
  a.eps = o.eps;
  a.domain = ir::normalisation_domain(op, o.groups);
  if (op != Op::group_norm && o.groups != 1) throw UserError(fmt::format("{} takes no groups", to_string(op)));
  std::vector<Value> inputs{x};
  if (o.scale) inputs.push_back(*o.scale);
  if (o.shift) inputs.push_back(*o.shift);
  a.has_scale = o.scale.has_value();
  a.has_shift = o.shift.has_value();
  return x.builder().node(op, inputs, std::move(a));
}
}  // namespace

Value leaky_relu(Value x, double slope) { return with_alpha(Op::leaky_relu, x, slope); }
Value elu(Value x, double alpha) { return with_alpha(Op::elu, x, alpha); }
Value hardsigmoid(Value x, double alpha, double beta) { return with_alpha(Op::hardsigmoid, x, alpha, beta); }

Value clamp(Value x, double lower, double upper) {
  Attributes a;
  a.lower = lower;
  a.upper = upper;
  return x.builder().node(Op::clamp, {x}, std::move(a));
}

Value cast(Value x, DType dtype) { return x.builder().node(Op::cast, {x}, {}, dtype); }

Value sum(Value x, ReduceDomain d) { return reduce(Op::sum, x, d); }
Value mean(Value x, ReduceDomain d) { return reduce(Op::mean, x, d); }
Value reduce_max(Value x, ReduceDomain d) { return reduce(Op::reduce_max, x, d); }
Value reduce_min(Value x, ReduceDomain d) { return reduce(Op::reduce_min, x, d); }
Value sum_squares(Value x, ReduceDomain d) { return reduce(Op::sum_squares, x, d); }
Value variance(Value x, ReduceDomain d) { return reduce(Op::variance, x, d); }
Value softmax(Value x, ReduceDomain d) { return reduce(Op::softmax, x, d); }

Value group_norm(Value x, NormOptions o) { return normalise(Op::group_norm, x, o); }
Value instance_norm(Value x, NormOptions o) { return normalise(Op::instance_norm, x, o); }
Value layer_norm(Value x, NormOptions o) { return normalise(Op::layer_norm, x, o); }
Value rms_norm(Value x, NormOptions o) { return normalise(Op::rms_norm, x, o); }
Value batch_norm(Value x, NormOptions o) { return normalise(Op::batch_norm, x, o); }

}  // namespace coda
