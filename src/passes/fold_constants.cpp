#include "passes/fold_constants.hpp"

#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "ir/number.hpp"
#include "ir/op_table.hpp"
#include "passes/editor.hpp"
#include "support/float_convert.hpp"

namespace unisono::passes {

namespace {

using Values = std::vector<double>;

// Only what has one meaning in every implementation; activations of a constant stay
std::optional<double> value_of(Op op, double x, double y, double z) {
  switch (op) {
#define FOLD(...) return __VA_ARGS__;
#define UNISONO_ELEMENTWISE(NAME, ...) \
  case Op::NAME: {                     \
    __VA_ARGS__ break;                 \
  }
#define UNISONO_CONVERSION(NAME, ...) \
  case Op::NAME: {                    \
    __VA_ARGS__ break;                \
  }
#define UNISONO_OTHER(NAME) \
  case Op::NAME: {          \
    break;                  \
  }
#include "ir/operations.inc"
  }
  return {};
}

std::optional<double> compute(const Node& node, const Values& in) {
  const auto at = [&](std::size_t i) { return i < in.size() ? in[i] : 0; };
  const std::optional<double> v = value_of(node.op, at(0), at(1), at(2));
  if (!v) return {};
  if (node.dtype == DType::f32 || node.dtype == DType::f64) return v;
  const double rounded = support::round_to(*v, node.dtype);
  const bool wraps = node.dtype == DType::i32 && node.op != Op::cast && rounded != *v;
  if (wraps) return {};
  return rounded;
}

// The value of a node that depends on constants alone, if it has been folded or is one
std::optional<double> known(const Editor& g, ValueId id) {
  const Node& x = g[id];
  if (x.op == Op::constant) return x.attr.value;
  if (x.op != Op::cast || g[x.inputs[0]].op != Op::constant) return {};
  return support::round_to(g[x.inputs[0]].attr.value, x.dtype == DType::f32 ? DType::f64 : x.dtype);
}

void put(Editor& g, ValueId id, double value) {
  if (g.constant_fits(id, value)) {
    g.replace(id, g.constant(value));
    return;
  }
  const Node& x = g[id];
  const bool in_form = x.op == Op::cast && g[x.inputs[0]].op == Op::constant;
  if (in_form && ir::same_number(g[x.inputs[0]].attr.value, value)) return;
  if (!(x.axes == axes::scalar)) return;
  const DType t = x.dtype;
  g.replace(id, g.add(Op::cast, {g.constant(value)}, {}, t));
}

void fold(Editor& g, ValueId id) {
  const Node x = g[id];
  if (!ir::is_elementwise(x.op)) return;
  if (x.op == Op::select) {
    if (const auto condition = known(g, x.inputs[0])) {
      const ValueId taken = x.inputs[*condition != 0 ? 1 : 2];
      const bool same_type = g[taken].dtype == x.dtype && g[taken].axes == x.axes && g[taken].op != Op::constant;
      if (same_type) return g.replace(id, taken);
    }
  }
  Values in;
  for (const ValueId i : x.inputs) {
    const auto v = known(g, i);
    if (!v) return;
    in.push_back(*v);
  }
  if (const auto v = compute(x, in)) put(g, id, *v);
}

}  // namespace

Graph fold_constants(const Graph& graph) {
  Editor g(graph);
  for (ValueId id = 0; id < graph.nodes.size(); ++id)
    if (!g.dead(id)) fold(g, id);
  return std::move(g).finish();
}

}  // namespace unisono::passes
