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

/// The sum and the product in the place of an operation that is both.
Graph split_product(const Graph& graph, ValueId fma) {
  Editor g(graph);
  const std::vector<ValueId> in = graph[fma].inputs;
  g.replace(fma, g.add(Op::add, {g.add(Op::mul, {in[0], in[1]}), in[2]}));
  return std::move(g).finish();
}

std::optional<RowForm> squares(const Graph& graph, ValueId mean_square) {
  const Node& square = graph[graph[mean_square].inputs[0]];
  if (graph[mean_square].op != Op::mean || square.op != Op::square) return {};
  const ValueId x = square.inputs[0];
  if (graph[x].dtype != DType::f32) return {};
  const std::vector<bool> known = depending(graph, [&](const Node& n) { return &n == &graph[mean_square]; });
  std::vector<ValueId> products;
  for (ValueId id = 0; id < graph.nodes.size(); ++id) {
    const auto factor = times(graph, id, x);
    if (!factor || !is_row(graph[*factor]) || !known[*factor]) continue;
    if (graph[id].op == Op::fma) return row_form(split_product(graph, id));
    products.push_back(id);
  }
  if (products.empty()) return {};
  RowForm form{graph, {}};
  form.part.input = form.part.result = x, form.part.mean_square = mean_square;
  if (products.size() == 1) form.first = products[0];
  return form;
}

class Softmax {
 public:
  explicit Softmax(const Graph& graph) : graph_(graph), g_(graph) {}

  std::optional<RowForm> of(ValueId largest, ValueId sum) const {
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
    if (g[quotient].op == Op::fma) return row_form(split_product(g, quotient));
    RowForm form{g, {}};
    form.part.input = x, form.part.maximum = largest, form.part.sum = sum, form.part.result = quotient;
    return form;
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
  const Editor g_;  // counts uses
};

}  // namespace

std::optional<RowForm> row_form(const Graph& graph) {
  const auto reductions = row_reductions(graph);
  if (!reductions) return {};
  if (reductions->size() == 1) return squares(graph, reductions->front());
  if (reductions->size() == 2) return Softmax(graph).of((*reductions)[0], (*reductions)[1]);
  return {};
}

}  // namespace unisono::passes
