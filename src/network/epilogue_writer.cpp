/// Writes the operators of a region as an epilogue graph.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "ir/names.hpp"
#include "ir/op_table.hpp"
#include "network/dim.hpp"
#include "network/names.hpp"
#include "network/regions.hpp"
#include "network/space.hpp"
#include "unisono/builder.hpp"
#include "unisono/error.hpp"

namespace unisono::network {

namespace {

class EpilogueWriter {
 public:
  EpilogueWriter(const Network& network, Region& region)
      : network_(network), region_(region), space_(network[network.operators[region.operators[0]].output].shape) {}

  void write(const std::vector<TensorId>& stored);
  bool write(const std::vector<TensorId>& stored, ReducedStore& reduced, std::int64_t column_multiple);

 private:
  void compute();
  void store(const std::vector<TensorId>& stored);
  std::optional<Value> reduction(const ReducedStore& reduced, std::int64_t column_multiple);
  Value contraction(const Operator& op);
  Value elementwise(const Operator& op);
  Value map(const Operator& op);
  Value normalisation(const Operator& op, const operators::Normalisation& n);
  Value softmax(const Operator& op);
  Value value(const Operator& op);
  /// The value of a tensor: computed in this region, the source, a constant number or an operand.
  Value read(TensorId id, std::string_view role);
  /// One element a column: a bias, scale or shift.
  Value vector(TensorId id, std::string_view role);
  Value operand(TensorId id, const Axes& axes, std::string_view role, bool per_column);

  const Network& network_;
  Region& region_;
  const Shape& space_;
  GraphBuilder graph_;
  std::map<TensorId, Value> values_;   // broadcast over the space
  std::map<TensorId, Value> vectors_;  // one element a column: the same tensor may be both, along different axes
  std::set<std::string> names_;
};

std::string identifier(std::string_view name) {
  std::string s;
  for (const char c : name.substr(0, 100)) s += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  if (!ir::is_identifier(s) || ir::is_reserved(s)) s = "t_" + s;
  return s;
}

Value EpilogueWriter::operand(TensorId id, const Axes& axes, std::string_view role, bool per_column) {
  const std::string base = identifier(role.empty() ? std::string_view(network_[id].name) : role);
  std::string name = base;
  for (int i = 2; !names_.insert(name).second; ++i) name = fmt::format("{}_{}", base, i);
  region_.operands.push_back({name, id, axes, per_column});
  return graph_.operand(name, axes);
}

Value EpilogueWriter::vector(TensorId id, std::string_view role) {
  if (const auto it = vectors_.find(id); it != vectors_.end()) return it->second;
  return vectors_.emplace(id, operand(id, axes::n, role, true)).first->second;
}

Value EpilogueWriter::read(TensorId id, std::string_view role) {
  if (const auto it = values_.find(id); it != values_.end()) return it->second;
  if (region_.source == id) return values_.emplace(id, graph_.acc()).first->second;
  const NetworkTensor& t = network_[id];
  if (t.constant && t.constant->size() == 1) return graph_.constant(static_cast<double>(t.constant->front()));
  const bool images = region_.kind == RegionReport::Kind::epilogue || space_.size() == 4;
  const auto a = axes_of(t.shape, space_, images);
  if (!a)
    throw InternalError(
        fmt::format("operand '{}' {} has no axes over {}", t.name, to_string(t.shape), to_string(space_)));
  return values_.emplace(id, operand(id, *a, role, false)).first->second;
}

Value EpilogueWriter::contraction(const Operator& op) {
  const bool is_second = region_.second && &op == &network_.operators[*region_.second];
  const Value acc = region_.second ? graph_.acc(is_second ? 1 : 0) : graph_.acc();
  return op.inputs.size() < 3 ? acc : acc + vector(op.inputs[2], "bias");
}

Value EpilogueWriter::elementwise(const Operator& op) {
  const auto& e = std::get<operators::Elementwise>(op.kind);
  std::vector<Value> inputs;
  for (const TensorId id : op.inputs) inputs.push_back(read(id, ""));
  return graph_.node(e.op, inputs, e.attr);
}

Value EpilogueWriter::map(const Operator& op) {
  std::vector<Value> inputs;
  for (const TensorId id : op.inputs) inputs.push_back(read(id, ""));
  return graph_.node(graph_operation(op.kind).value(), inputs);
}

Value EpilogueWriter::normalisation(const Operator& op, const operators::Normalisation& n) {
  NormOptions options{.groups = n.groups, .scale = {}, .shift = {}, .eps = n.eps};
  const Value x = read(op.inputs[0], "");
  if (n.has_scale) options.scale = vector(op.inputs[1], "gamma");
  if (n.has_shift) options.shift = vector(op.inputs[n.has_scale ? 2 : 1], "beta");
  switch (n.op) {
    case Op::group_norm: return group_norm(x, options);
    case Op::instance_norm: return instance_norm(x, options);
    case Op::layer_norm: return layer_norm(x, options);
    case Op::rms_norm: return rms_norm(x, options);
    default: throw InternalError(fmt::format("{} is not a normalisation", to_string(n.op)));
  }
}

Value EpilogueWriter::value(const Operator& op) {
  if (is_contraction(op.kind)) return contraction(op);
  if (const auto* n = std::get_if<operators::Normalisation>(&op.kind)) return normalisation(op, *n);
  if (std::holds_alternative<operators::Softmax>(op.kind)) return unisono::softmax(read(op.inputs[0], ""), over_n);
  if (std::holds_alternative<operators::Elementwise>(op.kind)) return elementwise(op);
  if (graph_operation(op.kind)) return map(op);
  throw InternalError(fmt::format("{} cannot be part of an epilogue", where(op)));
}

void EpilogueWriter::compute() {
  for (const std::size_t i : region_.operators) {
    const Operator& op = network_.operators[i];
    values_.insert_or_assign(op.output, value(op));
  }
}

void EpilogueWriter::store(const std::vector<TensorId>& stored) {
  for (std::size_t i = 0; i < stored.size(); ++i) {
    const std::string name = i == 0 ? "y" : fmt::format("y{}", i + 1);
    const Value v = values_.at(stored[i]);
    // A value that lacks an axis of the tensor has an extent of 1 along it: the elements are the same
    if (!has_axes(network_[stored[i]].shape, space_, v.axes()))
      throw InternalError(fmt::format("'{}' has axes {}", network_[stored[i]].name, to_string(v.axes())));
    graph_.store(v, DType::f32, name);
    region_.outputs.push_back({name, stored[i]});
  }
}

void EpilogueWriter::write(const std::vector<TensorId>& stored) {
  compute();
  store(stored);
  region_.graph = graph_.build();
}

// Columns that a kernel computes beside those that there are, as they are no multiple, have values that nobody knows
std::optional<Value> EpilogueWriter::reduction(const ReducedStore& reduced, std::int64_t column_multiple) {
  const auto* reduce = std::get_if<operators::Reduce>(&network_.operators[reduced.operators[0]].kind);
  const ReduceOp op = reduce == nullptr ? ReduceOp::mean : reduce->op;
  Value x = values_.at(reduced.from);
  if (!(x.axes() == axes::mn)) return std::nullopt;
  const Dim width = columns(space_);
  double factor = 1;
  if (reduced.domain.cols && !(width.known() && width.value() % column_multiple == 0)) {
    if (!width.known() || op == ReduceOp::max || op == ReduceOp::min) return std::nullopt;
    const std::int64_t padded = (width.value() + column_multiple - 1) / column_multiple * column_multiple;
    const Value is_column = graph_.node(
        Op::less, {cast(graph_.index(Coordinate::n), DType::f32), graph_.constant(static_cast<double>(width.value()))});
    x = graph_.node(Op::select, {is_column, x, graph_.constant(0)});
    if (op == ReduceOp::mean) factor = static_cast<double>(padded) / static_cast<double>(width.value());
  }
  switch (op) {
    case ReduceOp::mean: x = mean(x, reduced.domain); break;
    case ReduceOp::sum: x = sum(x, reduced.domain); break;
    case ReduceOp::max: x = reduce_max(x, reduced.domain); break;
    case ReduceOp::min: x = reduce_min(x, reduced.domain); break;
    default: return std::nullopt;
  }
  return factor == 1 ? x : x * graph_.constant(factor);
}

bool EpilogueWriter::write(const std::vector<TensorId>& stored, ReducedStore& reduced, std::int64_t column_multiple) {
  compute();
  auto number = reduction(reduced, column_multiple);
  if (!number) return false;
  values_.insert_or_assign(network_.operators[reduced.operators[0]].output, *number);
  for (std::size_t i = 1; i < reduced.operators.size(); ++i) {
    const Operator& op = network_.operators[reduced.operators[i]];
    values_.insert_or_assign(op.output, is_reshape(op.kind) ? read(op.inputs[0], "") : value(op));
  }
  store(stored);
  reduced.name = "reduced";
  for (const auto is_taken = [&](const RegionOutput& o) { return o.name == reduced.name; };
       names_.contains(reduced.name) || std::ranges::any_of(region_.outputs, is_taken);)
    reduced.name += '_';
  graph_.store(values_.at(reduced.to), DType::f32, reduced.name);
  reduced.graph = graph_.build();
  return true;
}

}  // namespace

void write_epilogue(const Network& network, Region& region, const std::vector<TensorId>& stored) {
  EpilogueWriter(network, region).write(stored);
}

bool write_reduced(const Network& network, const Region& region, ReducedStore& store, std::int64_t column_multiple) {
  Region own = region;
  own.operands.clear(), own.outputs.clear();
  std::vector<TensorId> stored;
  for (const RegionOutput& o : region.outputs) stored.push_back(o.tensor);
  if (!EpilogueWriter(network, own).write(stored, store, column_multiple)) return false;
  for (const RegionOutput& o : own.outputs)
    if (store.only && o.tensor == store.from)
      std::erase_if(store.graph.stores, [&](const Store& s) { return s.name == o.name; });
  return true;
}

}  // namespace unisono::network
