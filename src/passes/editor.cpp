#include "passes/editor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "ir/op_table.hpp"
#include "unisono/error.hpp"

namespace unisono::passes {

namespace {

std::vector<const Node*> nodes_of(const Graph& g, const std::vector<ValueId>& ids) {
  std::vector<const Node*> nodes;
  nodes.reserve(ids.size());
  for (const ValueId id : ids) nodes.push_back(&g.nodes[id]);
  return nodes;
}

bool is_leaf(const Node& x) { return ir::info(x.op).op_class == ir::OpClass::leaf; }

// The dtype in which the inputs of a node meet; constants take it
std::optional<DType> meeting_dtype(const std::vector<const Node*>& inputs, Op op) {
  std::optional<DType> common;
  for (std::size_t i = op == Op::select ? 1 : 0; i < inputs.size(); ++i) {
    if (inputs[i]->op == Op::constant) continue;
    common = common ? ir::promote(*common, inputs[i]->dtype) : inputs[i]->dtype;
  }
  return common;
}

}  // namespace

Editor::Editor(const Graph& source) : graph_(source), uses_(source.nodes.size(), 0), users_(source.nodes.size()) {
  for (ValueId id = 0; id < size(); ++id)
    for (const ValueId in : graph_.nodes[id].inputs) users_[in].push_back(id);
  for (const Store& s : graph_.stores) use(s.value, 1);
  for (const ValueId e : graph_.effects) use(e, 1);
}

// Adds references from live nodes, stores or effects; a node that comes to life by them refers to its inputs
void Editor::use(ValueId id, int times) {
  const bool awakes = uses_[id] == 0 && times > 0;
  uses_[id] += times;
  if (!awakes) return;
  pending_.assign(1, id);
  while (!pending_.empty()) {
    const ValueId next = pending_.back();
    pending_.pop_back();
    for (const ValueId in : graph_.nodes[next].inputs)
      if (uses_[in]++ == 0) pending_.push_back(in);
  }
}

void Editor::release(ValueId id, int times) {
  uses_[id] -= times;
  if (uses_[id] > 0 || times == 0) return;
  pending_.assign(1, id);
  while (!pending_.empty()) {
    const ValueId next = pending_.back();
    pending_.pop_back();
    for (const ValueId in : graph_.nodes[next].inputs)
      if (--uses_[in] == 0) pending_.push_back(in);
  }
}

ValueId Editor::append(Node node) {
  for (const ValueId in : node.inputs) users_[in].push_back(size());
  graph_.nodes.push_back(std::move(node));
  uses_.push_back(0);
  users_.emplace_back();
  return size() - 1;
}

ValueId Editor::add(Op op, std::vector<ValueId> inputs, Attributes attr, std::optional<DType> requested) {
  const ir::Inferred type = ir::infer(op, nodes_of(graph_, inputs), attr, requested);
  return append(op, type, std::move(inputs), std::move(attr));
}

std::optional<ValueId> Editor::try_add(Op op, std::vector<ValueId> inputs, Attributes attr,
                                       std::optional<DType> requested) {
  const auto type = ir::try_infer(op, nodes_of(graph_, inputs), attr, requested);
  if (!std::holds_alternative<ir::Inferred>(type)) return {};
  return append(op, std::get<ir::Inferred>(type), std::move(inputs), std::move(attr));
}

ValueId Editor::append(Op op, const ir::Inferred& type, std::vector<ValueId> inputs, Attributes attr) {
  Node node;
  node.op = op;
  node.dtype = type.dtype;
  node.axes = type.axes;
  node.inputs = std::move(inputs);
  node.attr = std::move(attr);
  return append(std::move(node));
}

ValueId Editor::constant(double value) {
  Node node;
  node.op = Op::constant;
  node.attr.value = value;
  return append(std::move(node));
}

ValueId Editor::extent(Coordinate c) {
  Node node;
  node.op = Op::extent;
  node.dtype = DType::i32;
  node.attr.coordinate = c;
  return append(std::move(node));
}

void Editor::replace(ValueId old, ValueId fresh) {
  if (old == fresh) return;
  const Node& from = graph_.nodes[old];
  Node& to = graph_.nodes[fresh];
  const bool same_type = from.dtype == to.dtype && from.axes == to.axes;
  if (!same_type && !(to.op == Op::constant && constant_fits(old, to.attr.value)))
    throw InternalError(fmt::format("a pass replaced {} {} of dtype {} by {} {} of dtype {}", to_string(from.op),
                                    to_string(from.axes), to_string(from.dtype), to_string(to.op), to_string(to.axes),
                                    to_string(to.dtype)));
  if (to.name.empty() && !is_leaf(to)) to.name = from.name;
  for (const ValueId user : users_[old]) {
    for (ValueId& in : graph_.nodes[user].inputs)
      if (in == old) in = fresh;
    users_[fresh].push_back(user);
  }
  users_[old].clear();
  for (Store& s : graph_.stores)
    if (s.value == old) s.value = fresh;
  for (ValueId& e : graph_.effects)
    if (e == old) e = fresh;
  const int moved = uses_[old];
  use(fresh, moved);  // first, so that what both are made of does not die in between
  release(old, moved);
  changed_ = true;
}

void Editor::set_inputs(ValueId id, std::vector<ValueId> inputs) {
  std::swap(graph_.nodes[id].inputs, inputs);
  const std::vector<ValueId>& now = graph_.nodes[id].inputs;
  if (inputs == now) return;
  for (const ValueId in : now) users_[in].push_back(id);
  for (const ValueId in : inputs) users_[in].erase(std::find(users_[in].begin(), users_[in].end(), id));
  changed_ = true;
  if (dead(id)) return;
  for (const ValueId in : std::vector(now)) use(in, 1);
  for (const ValueId in : inputs) release(in, 1);
}

void Editor::roll_back(ValueId first) {
  while (size() > first) {
    for (const ValueId in : graph_.nodes.back().inputs) users_[in].pop_back();
    graph_.nodes.pop_back();
    uses_.pop_back();
    users_.pop_back();
  }
}

bool Editor::constant_fits(ValueId old, double value) const {
  Node constant;
  constant.op = Op::constant;
  constant.attr.value = value;
  for (const Store& s : graph_.stores)
    if (s.value == old && !(graph_.nodes[old].axes == constant.axes)) return false;
  for (const ValueId user : users_[old]) {
    const Node& x = graph_.nodes[user];
    if (dead(user)) continue;
    const auto before = nodes_of(graph_, x.inputs);
    auto after = before;
    for (std::size_t i = 0; i < after.size(); ++i)
      if (x.inputs[i] == old) after[i] = &constant;
    if (meeting_dtype(before, x.op) != meeting_dtype(after, x.op)) return false;
    const auto type = ir::try_infer(x.op, after, x.attr, x.dtype);
    const auto* inferred = std::get_if<ir::Inferred>(&type);  // a condition must be a bool, which no constant is
    if (inferred == nullptr || inferred->dtype != x.dtype || !(inferred->axes == x.axes)) return false;
  }
  return true;
}

Graph Editor::finish() && {
  if (!changed_) return std::move(graph_);
  return live_in_order(graph_);
}

bool operands_commute(Op op) { return ir::info(op).commutes; }

Graph live_in_order(const Graph& graph) {
  std::vector<bool> live(graph.nodes.size(), false);
  std::vector<ValueId> pending;
  const auto need = [&](ValueId id) {
    if (!live[id]) pending.push_back(id);
    live[id] = true;
  };
  for (const Store& s : graph.stores) need(s.value);
  for (const ValueId e : graph.effects) need(e);
  while (!pending.empty()) {
    const ValueId id = pending.back();
    pending.pop_back();
    for (const ValueId in : graph.nodes[id].inputs) need(in);
  }

  std::vector<ValueId> roots;
  for (ValueId id = 0; id < graph.nodes.size(); ++id)
    if (live[id]) roots.push_back(id);
  return in_depth_first_order(graph, roots);
}

Graph in_depth_first_order(const Graph& graph, const std::vector<ValueId>& roots, std::vector<ValueId>* places) {
  Graph result;
  result.functions = graph.functions;
  constexpr ValueId unplaced = ~ValueId{0};
  std::vector<ValueId> place(graph.nodes.size(), unplaced);
  std::vector<ValueId> pending;
  for (const ValueId root : roots) {
    pending.push_back(root);
    while (!pending.empty()) {
      const ValueId id = pending.back();
      const std::size_t depth = pending.size();
      if (place[id] == unplaced)
        for (auto in = graph.nodes[id].inputs.rbegin(); in != graph.nodes[id].inputs.rend(); ++in)
          if (place[*in] == unplaced) pending.push_back(*in);
      if (pending.size() > depth) continue;
      pending.pop_back();
      if (place[id] != unplaced) continue;
      Node node = graph.nodes[id];
      for (ValueId& in : node.inputs) in = place[in];
      place[id] = static_cast<ValueId>(result.nodes.size());
      result.nodes.push_back(std::move(node));
    }
  }
  result.stores = graph.stores;
  for (Store& s : result.stores) s.value = place[s.value];
  for (const ValueId e : graph.effects) result.effects.push_back(place[e]);
  if (places != nullptr) *places = std::move(place);
  return result;
}

}  // namespace unisono::passes
