#include "passes/row_form.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "ir/node_kinds.hpp"
#include "passes/editor.hpp"

namespace unisono::passes {

namespace {

using ir::depending, ir::is_full, ir::is_row, ir::over_channels;

/// The reductions over all of a row's channels, if there are no others; nothing: there are.
std::optional<std::vector<ValueId>> row_reductions(const Graph& g) {
  std::vector<ValueId> all;
  for (ValueId id = 0; id < g.nodes.size(); ++id) {
    const Node& x = g[id];
    if (!ir::is_reduction(x.op)) continue;
    if (!over_channels(x) || x.attr.domain.groups != 1 || !is_full(g[x.inputs[0]]) || x.dtype != DType::f32) return {};
    all.push_back(id);
  }
  return all;
}

/// The other factor of a product with `factor`, where `node` is that product, or adds something to it.
std::optional<ValueId> times(const Graph& g, ValueId node, ValueId factor) {
  const Node& x = g[node];
  if ((x.op != Op::mul && x.op != Op::fma) || x.dtype != DType::f32) return {};
  if (x.op == Op::fma && x.inputs[2] == factor) return {};
  if (x.inputs[0] == factor) return x.inputs[1];
  if (x.inputs[1] == factor) return x.inputs[0];
  return {};
}

/// In the place of a product, or of one that something is added to.
void put_product(Editor& g, ValueId node, ValueId product) {
  const Node x = g[node];
  g.replace(node, x.op == Op::fma ? g.add(Op::add, {product, x.inputs[2]}) : product);
}

ValueId statistic(Editor& g, Op op, ValueId of, const Attributes& attr) {
  Attributes own;
  own.domain = attr.domain;
  return g.add(op, {of}, std::move(own));
}

std::optional<RowForm> squares(const Graph& graph, ValueId mean_square) {
  const Node reduction = graph[mean_square];
  const Node& square = graph[reduction.inputs[0]];
  if (reduction.op != Op::mean || square.op != Op::square) return {};
  const ValueId x = square.inputs[0];
  if (graph[x].dtype != DType::f32) return {};
  const std::vector<bool> known = depending(graph, [&](const Node& n) { return &n == &graph[mean_square]; });
  Editor g(graph);
  const ValueId difference = g.add(Op::sub, {x, statistic(g, Op::mean, x, reduction.attr)});
  bool any = false;
  for (ValueId id = 0; id < graph.nodes.size(); ++id) {
    const auto factor = times(graph, id, x);
    if (!factor || !is_row(graph[*factor]) || !known[*factor]) continue;
    put_product(g, id, g.add(Op::mul, {difference, *factor}));
    any = true;
  }
  if (!any) return {};
  g.replace(mean_square, statistic(g, Op::variance, x, reduction.attr));
  return RowForm{std::move(g).finish(), RowStatistic::squares};
}

class Softmax {
 public:
  explicit Softmax(const Graph& graph) : graph_(graph), g_(graph) {}

  std::optional<RowForm> of(ValueId largest, ValueId sum) && {
    const Graph& g = graph_;
    if (g[largest].op != Op::reduce_max || g[sum].op != Op::sum || g[g[sum].inputs[0]].op != Op::exp) return {};
    const ValueId x = g[largest].inputs[0], e = g[sum].inputs[0], difference = g[e].inputs[0];
    if (!is_difference(difference, x, largest) || !read_by(largest, {difference}, 1) || !read_by(difference, {e}, 1))
      return {};
    if (g_.uses(e) != 2 || g_.uses(sum) != 1) return {};
    const ValueId inverse = users(sum)[0];
    ValueId quotient = inverse;  // e / sum, or e·(1 / sum), to which something may be added
    if (g[inverse].op == Op::reciprocal) {
      if (g_.uses(inverse) != 1) return {};
      quotient = users(inverse)[0];
      const auto factor = times(g, quotient, e);
      if (!factor || *factor != inverse) return {};
    } else if (g[inverse].op != Op::div || g[inverse].inputs != std::vector{e, sum}) {
      return {};
    }
    if (g[quotient].dtype != DType::f32) return {};
    put_product(g_, quotient, g_.add(Op::sub, {x, statistic(g_, Op::mean, x, g[largest].attr)}));
    return RowForm{std::move(g_).finish(), RowStatistic::softmax};
  }

 private:
  std::vector<ValueId> users(ValueId id) const {
    std::vector<ValueId> live;
    for (const ValueId user : g_.users(id))
      if (!g_.dead(user)) live.push_back(user);
    return live;
  }
  bool read_by(ValueId id, const std::vector<ValueId>& readers, int times) const {
    return g_.uses(id) == times && users(id) == readers;
  }
  bool is_difference(ValueId id, ValueId x, ValueId largest) const {
    const Node& d = graph_[id];
    return d.op == Op::sub && d.inputs == std::vector{x, largest} && d.dtype == DType::f32;
  }

  const Graph& graph_;
  Editor g_;
};

}  // namespace

std::optional<RowForm> row_form(const Graph& optimised) {
  const auto reductions = row_reductions(optimised);
  if (!reductions) return {};
  if (reductions->size() == 1) return squares(optimised, reductions->front());
  if (reductions->size() == 2) return Softmax(optimised).of((*reductions)[0], (*reductions)[1]);
  return {};
}

}  // namespace unisono::passes
