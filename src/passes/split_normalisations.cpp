#include "passes/split_normalisations.hpp"

#include "ir/op_table.hpp"
#include "passes/editor.hpp"

namespace unisono::passes {

namespace {

ValueId reduce(Editor& g, Op op, ValueId x, const ReduceDomain& domain) {
  Attributes attr;
  attr.domain = domain;
  return g.add(op, {x}, std::move(attr));
}

// x as a value that f32 or f64 arithmetic of type `t` takes up without loss of range: integers do not wrap in a
// difference, and an f64 norm of an f32 value takes its statistics in f64
ValueId widened(Editor& g, ValueId x, DType t) {
  const DType from = g[x].dtype;
  const bool meets_in_t = from == t || (is_float(from) && t == DType::f32);
  return meets_in_t ? x : g.add(Op::cast, {x}, {}, t);
}

ValueId inverse_deviation(Editor& g, ValueId second_moment, double eps) {
  const ValueId sum = eps == 0 ? second_moment : g.add(Op::add, {second_moment, g.constant(eps)});
  return g.add(Op::rsqrt, {sum});
}

// x·rstd·scale, the small factors first if their product has fewer elements than the result
ValueId scaled(Editor& g, ValueId x, ValueId rstd, ValueId scale, const Axes& result) {
  const bool small = !(join(g[rstd].axes, g[scale].axes) == result);
  if (small) return g.add(Op::mul, {x, g.add(Op::mul, {rstd, scale})});
  return g.add(Op::mul, {g.add(Op::mul, {x, rstd}), scale});
}

ValueId split_normalisation(Editor& g, ValueId id) {
  const Node node = g[id];
  const auto& attr = node.attr;
  ValueId x = widened(g, node.inputs[0], node.dtype);
  ValueId rstd{};
  if (node.op == Op::rms_norm) {
    if (g[x].dtype != node.dtype) x = g.add(Op::cast, {x}, {}, node.dtype);  // x² of a short type would round
    rstd = inverse_deviation(g, reduce(g, Op::mean, g.add(Op::square, {x}), attr.domain), attr.eps);
  } else {
    const ValueId mean = reduce(g, Op::mean, x, attr.domain);
    rstd = inverse_deviation(g, reduce(g, Op::variance, x, attr.domain), attr.eps);
    x = g.add(Op::sub, {x, mean});
  }
  ValueId y = attr.has_scale ? scaled(g, x, rstd, node.inputs[1], node.axes) : g.add(Op::mul, {x, rstd});
  if (attr.has_shift) y = g.add(Op::add, {y, node.inputs.back()});
  return y;
}

ValueId split_softmax(Editor& g, ValueId id) {
  const Node node = g[id];
  const ValueId x = widened(g, node.inputs[0], node.dtype);
  const ValueId largest = reduce(g, Op::reduce_max, x, node.attr.domain);
  const ValueId e = g.add(Op::exp, {g.add(Op::sub, {x, largest})});
  return g.add(Op::mul, {e, g.add(Op::reciprocal, {reduce(g, Op::sum, e, node.attr.domain)})});
}

}  // namespace

const RowTable& softmax_rows() {
  static const RowTable table([] {
    const Pattern x = any(0);
    const auto over = [](Op op, const Pattern& p) { return with_attributes(0, op, {p}); };
    const Pattern shifted = x - over(Op::reduce_max, x);
    return std::vector<Row>{{"log(softmax(x)) -> (x - max(x)) - log(sum(exp(x - max(x))))",
                             log(shared(over(Op::softmax, x))), shifted - log(over(Op::sum, exp(shifted)))}};
  }());
  return table;
}

Graph split_normalisations(const Graph& graph) {
  Editor g(graph);
  apply(softmax_rows(), g);
  for (ValueId id = 0; id < graph.nodes.size(); ++id) {
    if (g.dead(id)) continue;
    if (ir::is_normalisation(g[id].op)) g.replace(id, split_normalisation(g, id));
    if (g[id].op == Op::softmax) g.replace(id, split_softmax(g, id));
  }
  return std::move(g).finish();
}

}  // namespace unisono::passes
