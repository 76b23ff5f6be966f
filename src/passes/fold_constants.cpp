#include "passes/fold_constants.hpp"

#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "ir/attributes.hpp"
#include "ir/op_table.hpp"
#include "passes/editor.hpp"
#include "support/float_convert.hpp"

namespace unisono::passes {

namespace {

using Values = std::vector<double>;

std::optional<double> binary(Op op, double x, double y) {
  switch (op) {
    case Op::add: return x + y;
    case Op::sub: return x - y;
    case Op::mul: return x * y;
    case Op::div: return x / y;
    case Op::pow: return std::pow(x, y);
    // of equals the second; NaN if either is
    case Op::min: return std::isnan(x) || std::isnan(y) ? x + y : x < y ? x : y;
    case Op::max: return std::isnan(x) || std::isnan(y) ? x + y : x > y ? x : y;
    case Op::less: return x < y;
    case Op::less_equal: return x <= y;
    case Op::greater: return x > y;
    case Op::greater_equal: return x >= y;
    case Op::equal: return x == y;
    case Op::not_equal: return x != y;
    case Op::logical_and: return x != 0 && y != 0;
    case Op::logical_or: return x != 0 || y != 0;
    default: return {};
  }
}

// Only what has one meaning in every implementation; activations of a constant stay
std::optional<double> unary(Op op, double x) {
  switch (op) {
    case Op::cast: return x;
    case Op::neg: return -x;
    case Op::abs: return std::abs(x);
    case Op::square: return x * x;
    case Op::sqrt: return std::sqrt(x);
    case Op::rsqrt: return 1 / std::sqrt(x);
    case Op::reciprocal: return 1 / x;
    case Op::exp: return std::exp(x);
    case Op::log: return std::log(x);
    case Op::log1p: return std::log1p(x);
    case Op::tanh: return std::tanh(x);
    case Op::erf: return std::erf(x);
    case Op::sin: return std::sin(x);
    case Op::cos: return std::cos(x);
    case Op::logical_not: return x == 0;
    default: return {};
  }
}

std::optional<double> compute(const Node& node, const Values& in) {
  std::optional<double> v;
  if (in.size() == 1) v = unary(node.op, in[0]);
  if (in.size() == 2) v = binary(node.op, in[0], in[1]);
  if (node.op == Op::select) v = in[0] != 0 ? in[1] : in[2];
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
