#include "unisono/builder.hpp"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "ir/functions.hpp"
#include "ir/infer.hpp"
#include "ir/leaves.hpp"
#include "ir/names.hpp"
#include "ir/number.hpp"
#include "ir/op_table.hpp"
#include "ir/rounding.hpp"
#include "ir/row_coordinates.hpp"
#include "unisono/error.hpp"

namespace unisono {

namespace {

Node leaf(Op op, DType dtype, Axes a) {
  Node node;
  node.op = op;
  node.dtype = dtype;
  node.axes = a;
  return node;
}

void check_operand(const std::string& name, const Axes& axes, const OperandOptions& options) {
  ir::check_identifier(name, "operand");
  if (!ir::is_operand_axes(axes))
    throw UserError(
        fmt::format("operand {} was given axes {}; expected one of [], [b], [m], [n], [b,n], [m,n], [g4], [b,g4]", name,
                    to_string(axes)));
  if (options.storage && !ir::is_supported(*options.storage))
    throw UserError(
        fmt::format("operand {} was declared {}: the fp8 types are reserved", name, to_string(*options.storage)));
  if (!ir::takes_rows(axes, options.rows))
    throw UserError(fmt::format("operand {}{} was given coordinates of rows; operands [m] and [m,n] have some of them",
                                name, to_string(axes)));
  if (options.strided && !ir::takes_strides(axes))
    throw UserError(
        fmt::format("operand {}{} is strided; only operands with rows can be: [m], [m,n] and those of a "
                    "pixel's coordinates",
                    name, to_string(axes)));
  if (!options.default_value) return;
  if (!ir::takes_default(axes))
    throw UserError(fmt::format("operand {}{} was given a default; only scalars and vectors can have one", name,
                                ir::operand_axes(axes, options.rows)));
  if (!ir::is_default_of(*options.default_value, options.storage))
    throw UserError(fmt::format("operand {} : {} was given the default {}, which is not a value of {}", name,
                                to_string(*options.storage), ir::number_text(*options.default_value),
                                to_string(*options.storage)));
}

// Checks a second request for an operand against the first
void check_same_operand(const Node& first, const Axes& axes, const OperandOptions& options) {
  const auto& name = first.attr.name;
  if (!(first.axes == axes) || first.attr.rows != options.rows)
    throw UserError(fmt::format("operand {0}{1} was used before as {0}{2}; one name has one set of axes", name,
                                ir::operand_axes(axes, options.rows), ir::operand_axes(first.axes, first.attr.rows)));
  if (options.strided && !first.attr.strided)
    throw UserError(fmt::format("operand {} was declared strided after its first use; declare it before", name));
  if (options.storage && options.storage != first.attr.storage)
    throw UserError(fmt::format("operand {} was declared {} after its first use as {}; declare it before", name,
                                to_string(*options.storage),
                                first.attr.storage ? to_string(*first.attr.storage) : "undeclared"));
  if (options.default_value && !ir::same_number(*options.default_value, first.attr.default_value))
    throw UserError(fmt::format("operand {} was given the default {} after its first use; declare it before", name,
                                ir::number_text(*options.default_value)));
}

}  // namespace

const Node& Value::node() const { return builder_->graph_[id_]; }

Value Value::named(std::string name) const {
  ir::check_identifier(name, "value");
  builder_->graph_.nodes[id_].name = std::move(name);
  return *this;
}

Value GraphBuilder::append(Node node) {
  graph_.nodes.push_back(std::move(node));
  return {*this, static_cast<ValueId>(graph_.nodes.size() - 1)};
}

// The leaf of that key, appended if the graph has none
Value GraphBuilder::unique(Node node, std::uint64_t key) {
  const auto [it, is_new] = leaves_.try_emplace(std::pair{node.op, key}, static_cast<ValueId>(graph_.nodes.size()));
  if (!is_new) return {*this, it->second};
  try {
    return append(std::move(node));
  } catch (...) {
    leaves_.erase(it);
    throw;
  }
}

Value GraphBuilder::acc() {
  if (std::exchange(reads_products_, 1) == 2)
    throw UserError("the graph reads acc0 or acc1, and acc too; of a dual product it reads acc0 and acc1, else acc");
  return unique(leaf(Op::acc, DType::f32, axes::mn), 0);
}

Value GraphBuilder::acc(int product) {
  if (product != 0 && product != 1)
    throw UserError(fmt::format("acc({}): a dual product has the accumulators 0 and 1", product));
  if (std::exchange(reads_products_, 2) == 1)
    throw UserError(
        fmt::format("the graph reads acc, and acc{} too; of a dual product it reads acc0 and acc1, else acc", product));
  return unique(leaf(product == 0 ? Op::acc : Op::acc1, DType::f32, axes::mn), 0);
}

Value GraphBuilder::operand(const std::string& name, Axes axes, OperandOptions options) {
  check_operand(name, axes, options);
  if (graph_.functions.contains(name))
    throw UserError(fmt::format("operand {} has the name of a function; choose another", name));
  const auto [it, is_new] = operands_.try_emplace(name, static_cast<ValueId>(graph_.nodes.size()));
  if (!is_new) {
    check_same_operand(graph_[it->second], axes, options);
    return {*this, it->second};
  }
  try {
    Node node = leaf(Op::operand, ir::operand_dtype(options.storage), axes);
    node.attr.name = name;
    node.attr.storage = options.storage;
    node.attr.default_value = options.default_value;
    node.attr.rows = options.rows;
    node.attr.strided = options.strided;
    return append(std::move(node));
  } catch (...) {
    operands_.erase(it);
    throw;
  }
}

Value GraphBuilder::constant(double value) {
  if (std::isnan(value)) value = std::numeric_limits<double>::quiet_NaN();  // one NaN: sign and payload mean nothing
  Node node = leaf(Op::constant, DType::f32, axes::scalar);
  node.attr.value = value;
  return unique(std::move(node), std::bit_cast<std::uint64_t>(value));  // -0 and 0 differ
}

Value GraphBuilder::index(Coordinate c) {
  Node node = leaf(Op::index, DType::i32, ir::coordinate_axes(c));
  node.attr.coordinate = c;
  return unique(std::move(node), static_cast<std::uint64_t>(c));
}

Value GraphBuilder::extent(Coordinate c) {
  Node node = leaf(Op::extent, DType::i32, axes::scalar);
  node.attr.coordinate = c;
  return unique(std::move(node), static_cast<std::uint64_t>(c));
}

void GraphBuilder::define(UserFunction function) {
  ir::check_function(function);
  if (function.results > 1) {
    for (UserFunction& part : ir::result_functions(function)) define(std::move(part));
    return;
  }
  if (graph_.functions.contains(function.name))
    throw UserError(fmt::format("function {} is defined twice", function.name));
  if (operands_.contains(function.name))
    throw UserError(fmt::format("function {} has the name of an operand; choose another", function.name));
  const auto shared = std::make_shared<const UserFunction>(std::move(function));
  graph_.functions.emplace(shared->name, shared);
}

std::optional<Value> GraphBuilder::call(const std::string& function, const std::vector<Value>& inputs) {
  Attributes attr;
  attr.name = function;
  std::vector<Value> all = inputs;
  if (!graph_.functions.contains(function))
    if (auto rounding = ir::rounding_function_named(function)) define(*std::move(rounding));
  if (const auto it = graph_.functions.find(function); it != graph_.functions.end()) {
    const UserFunction& f = *it->second;
    if (std::ssize(inputs) != f.arity) throw UserError(ir::wrong_arity(function, f.arity, inputs.size()));
    for (const std::string& scalar : f.scalars) {
      const auto there = operands_.find(scalar);
      all.push_back(there != operands_.end() ? Value{*this, there->second} : operand(scalar));
      if (!(all.back().axes() == axes::scalar))
        throw UserError(fmt::format("function {} captures the scalar {}, which is an operand {}", function, scalar,
                                    to_string(all.back().axes())));
    }
  }
  const Value v = node(Op::call, all, std::move(attr));
  if (graph_.functions.at(function)->returns_value) return v;
  return std::nullopt;
}

void GraphBuilder::store(Value value, DType dtype, std::string name) {
  add_store(value, dtype, std::move(name), StoreForm::whole);
}

void GraphBuilder::store(Value value, DType dtype, std::string name, const StoreOptions& options) {
  if (name.empty()) name = value.node().op == Op::operand ? value.node().attr.name : value.node().name;
  if (options.strided && !(value.axes() == axes::mn))
    throw UserError(fmt::format("store {} is strided, of a value with axes {}; only stores [m,n] can be", name,
                                to_string(value.axes())));
  add_store(rounded(value, dtype, options), dtype, std::move(name), StoreForm::whole);
  graph_.stores.back().strided = options.strided;
}

// The value as the store rounds it, so that the store itself is exact
Value GraphBuilder::rounded(Value value, DType dtype, const StoreOptions& options) {
  if (options.rounding == RoundingMode::nearest) return value;
  const bool stochastic = options.rounding == RoundingMode::stochastic;
  const std::string_view word = stochastic ? "stochastic" : "toward_zero";
  if (dtype != DType::bf16 && dtype != DType::f16)
    throw UserError(fmt::format("a store was given {} rounding to {}; f16 and bf16 have it", word, to_string(dtype)));
  if (value.dtype() == DType::f64)
    throw UserError(fmt::format("a store was given {} rounding of an f64 value; cast it to f32", word));
  if (stochastic && !(value.axes() == axes::mn))
    throw UserError(
        fmt::format("a store was given stochastic rounding of a value with axes {}; each element [m,n] has "
                    "its own random bits",
                    to_string(value.axes())));
  if (stochastic && (!options.seed || options.seed->dtype() != DType::i32 || !(options.seed->axes() == axes::scalar)))
    throw UserError("stochastic rounding needs a seed that is an i32 scalar: operand seed : i32");
  const std::string function = fmt::format("round_{}_{}", word, to_string(dtype));
  if (!stochastic) return *call(function, {value});
  return *call(function, {value, *options.seed, index(Coordinate::m), index(Coordinate::n),
                          constant(static_cast<double>(graph_.stores.size()))});
}

void GraphBuilder::store(FormedValue formed, DType dtype, std::string name) {
  add_store(formed.value, dtype, std::move(name), formed.form);
}

void GraphBuilder::add_store(Value value, DType dtype, std::string name, StoreForm form) {
  if (&value.builder() != this) throw UserError("store was given a value of another GraphBuilder");
  const Node& node = value.node();
  if (node.op == Op::call && !graph_.functions.at(node.attr.name)->returns_value)
    throw UserError(fmt::format("store of {}, which returns nothing", node.attr.name));
  if (!ir::is_supported(dtype))
    throw UserError(fmt::format("store as {}: the fp8 types are reserved and cannot be written yet", to_string(dtype)));
  if (name.empty() && form == StoreForm::whole) name = node.op == Op::operand ? node.attr.name : node.name;
  if (name.empty()) name = fmt::format("out{}", graph_.stores.size());
  ir::check_identifier(name, "store");
  if (store_names_.contains(name))
    throw UserError(fmt::format("store {} is written twice; give one of them another name", name));
  graph_.stores.push_back({value.id(), dtype, name, form});
  try {
    store_names_.insert(std::move(name));
  } catch (...) {
    graph_.stores.pop_back();
    throw;
  }
}

Value GraphBuilder::node(Op op, const std::vector<Value>& inputs, Attributes attr, std::optional<DType> requested) {
  if (ir::info(op).op_class == ir::OpClass::leaf)
    throw UserError(fmt::format("{} is a leaf: make it by GraphBuilder::{}", to_string(op), to_string(op)));
  std::vector<const Node*> types;
  Node result;
  for (const Value& v : inputs) {
    if (&v.builder() != this)
      throw UserError(fmt::format("{} was given a value of another GraphBuilder", to_string(op)));
    const Node& x = v.node();
    if (x.op == Op::call && !graph_.functions.at(x.attr.name)->returns_value)
      throw UserError(fmt::format("{} was given the result of {}, which returns nothing", to_string(op), x.attr.name));
    types.push_back(&x);
    result.inputs.push_back(v.id());
  }
  const UserFunction* function = nullptr;
  if (op == Op::call) {
    const auto it = graph_.functions.find(attr.name);
    if (it == graph_.functions.end())
      throw UserError(fmt::format("function {} is not defined in this graph", attr.name));
    function = it->second.get();
    if (std::ssize(inputs) != function->input_count())
      throw UserError(ir::wrong_arity(attr.name, function->input_count(), inputs.size()));
  }
  const auto inferred = ir::infer(op, types, attr, requested);
  result.op = op;
  result.dtype = inferred.dtype;
  result.axes = inferred.axes;
  result.attr = std::move(attr);
  const bool is_effect = function && !function->returns_value;
  if (is_effect) graph_.effects.push_back(static_cast<ValueId>(graph_.nodes.size()));
  try {
    return append(std::move(result));
  } catch (...) {
    if (is_effect) graph_.effects.pop_back();
    throw;
  }
}

Graph GraphBuilder::build() const {
  if (reads_products_ == 2 && product_count(graph_) == 1)
    throw UserError("the graph reads acc0 and not acc1; of a single product it reads acc, of a dual one both");
  if (graph_.stores.empty() && graph_.effects.empty())
    throw UserError("the graph stores nothing and calls nothing; add a store");
  verify(graph_);
  return graph_;
}

}  // namespace unisono
