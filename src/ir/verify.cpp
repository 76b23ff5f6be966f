#include <fmt/format.h>

#include <set>

#include "coda/error.hpp"
#include "coda/graph.hpp"
#include "ir/infer.hpp"
#include "ir/names.hpp"
#include "ir/op_table.hpp"

namespace coda {

namespace {

[[noreturn]] void broken(const Graph& g, ValueId id, const std::string& what) {
  throw InternalError(
      fmt::format("node {} ({}{}): {}", id, to_string(g[id].op), g[id].name.empty() ? "" : " " + g[id].name, what));
}

void verify_leaf(const Graph& g, ValueId id) {
  const Node& x = g[id];
  if (!x.inputs.empty()) broken(g, id, "a leaf has no inputs");
  if (x.op == Op::acc && !(x.axes == axes::mn)) broken(g, id, "acc has axes [m,n]");
  if (x.op == Op::constant && !(x.axes == axes::scalar)) broken(g, id, "a constant has no axes");
  if (x.op == Op::operand && x.axes.col == ColAxis::g) broken(g, id, "an operand has no group axis");
  if (x.op == Op::operand && x.attr.default_value && !(x.axes == axes::scalar))
    broken(g, id, "only a scalar has a default");
  if (x.op == Op::operand) ir::check_identifier(x.attr.name, "operand");
}

void verify_node(const Graph& g, ValueId id) {
  const Node& x = g[id];
  std::vector<const Node*> inputs;
  for (const ValueId in : x.inputs) {
    if (in >= id) broken(g, id, fmt::format("input {} does not stand before it", in));
    inputs.push_back(&g[in]);
  }
  if (x.op == Op::call) {
    const auto f = g.functions.find(x.attr.name);
    if (f == g.functions.end()) broken(g, id, "calls an undefined function " + x.attr.name);
    if (std::ssize(x.inputs) != f->second->arity)
      broken(g, id, fmt::format("calls {} with {} inputs", x.attr.name, x.inputs.size()));
  }
  const auto inferred = ir::infer(x.op, inputs, x.attr, x.dtype);
  if (!broadcasts_to(inferred.axes, x.axes) || !(inferred.axes == x.axes))
    broken(g, id, fmt::format("has axes {}; its inputs give {}", to_string(x.axes), to_string(inferred.axes)));
  if (inferred.dtype != x.dtype)
    broken(g, id, fmt::format("has dtype {}; its inputs give {}", to_string(x.dtype), to_string(inferred.dtype)));
}

}  // namespace

void verify(const Graph& g) {
  std::set<std::string> operands;
  for (ValueId id = 0; id < g.nodes.size(); ++id) {
    const Node& x = g[id];
    if (ir::info(x.op).op_class == ir::OpClass::leaf) {
      verify_leaf(g, id);
      if (x.op == Op::operand && !operands.insert(x.attr.name).second)
        broken(g, id, "operand " + x.attr.name + " stands twice");
    } else {
      verify_node(g, id);
    }
  }
  std::set<std::string> names;
  for (const Store& s : g.stores) {
    if (s.value >= g.nodes.size()) throw InternalError(fmt::format("store {} has no value", s.name));
    ir::check_identifier(s.name, "store");
    if (!names.insert(s.name).second) throw InternalError(fmt::format("store {} stands twice", s.name));
  }
  for (const ValueId e : g.effects)
    if (e >= g.nodes.size() || g[e].op != Op::call) throw InternalError("an effect is no call");
}

bool structurally_equal(const Graph& x, const Graph& y) {
  const auto same_node = [](const Node& a, const Node& b) {
    return a.op == b.op && a.dtype == b.dtype && a.axes == b.axes && a.inputs == b.inputs && a.attr == b.attr;
  };
  const auto same_store = [](const Store& a, const Store& b) {
    return a.value == b.value && a.dtype == b.dtype && a.name == b.name;
  };
  return std::equal(x.nodes.begin(), x.nodes.end(), y.nodes.begin(), y.nodes.end(), same_node) &&
         std::equal(x.stores.begin(), x.stores.end(), y.stores.begin(), y.stores.end(), same_store) &&
         x.effects == y.effects;
}

}  // namespace coda
