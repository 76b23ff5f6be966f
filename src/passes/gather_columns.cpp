#include "passes/gather_columns.hpp"

#include <optional>

#include "passes/editor.hpp"

namespace unisono::passes {

namespace {

bool is_column(const Node& x) { return x.axes.row != RowAxis::m && !(x.axes == axes::scalar); }

// The two summands of a sum: the one that is an element and the one that is a column
struct Sum {
  ValueId element, column;
};

std::optional<Sum> as_sum(const Editor& g, ValueId id) {
  const Node& x = g[id];
  if (x.op != Op::add || x.dtype != DType::f32 || x.axes.row != RowAxis::m) return {};
  for (const int i : {0, 1})
    if (is_column(g[x.inputs[i]]) && !is_column(g[x.inputs[1 - i]])) return Sum{x.inputs[1 - i], x.inputs[i]};
  return {};
}

}  // namespace

Graph gather_columns(const Graph& graph) {
  Editor g(graph);
  for (ValueId id = 0; id < graph.nodes.size(); ++id) {
    const auto outer = as_sum(g, id);
    if (!outer || g.uses(outer->element) != 1) continue;
    const Node& inner = g[outer->element];
    if (const auto sum = as_sum(g, outer->element)) {
      const ValueId columns = g.add(Op::add, {sum->column, outer->column});
      g.replace(id, g.add(Op::add, {sum->element, columns}));
    } else if (inner.op == Op::fma && inner.dtype == DType::f32 && is_column(g[inner.inputs[2]])) {
      const std::vector<ValueId> in = inner.inputs;
      const ValueId columns = g.add(Op::add, {in[2], outer->column});
      g.replace(id, g.add(Op::fma, {in[0], in[1], columns}));
    }
  }
  return std::move(g).finish();
}

}  // namespace unisono::passes
