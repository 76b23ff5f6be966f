#include "passes/split_row_variances.hpp"

#include <utility>

#include "passes/editor.hpp"

namespace unisono::passes {

Graph split_row_variances(const Graph& graph) {
  Editor g(graph);
  for (ValueId id = 0; id < graph.nodes.size(); ++id) {
    const Node x = graph[id];
    const ReduceDomain& over = x.attr.domain;
    if (x.op != Op::variance || over.rows || !(graph[x.inputs[0]].axes == axes::mn)) continue;
    const ValueId mean = g.add(Op::mean, {x.inputs[0]}, x.attr);
    g.replace(id, g.add(Op::mean, {g.add(Op::square, {g.add(Op::sub, {x.inputs[0], mean})})}, x.attr));
  }
  return std::move(g).finish();
}

}  // namespace unisono::passes
