#include "passes/common_subexpressions.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "ir/attributes.hpp"
#include "passes/editor.hpp"

namespace unisono::passes {

Graph common_subexpressions(const Graph& graph) {
  Editor g(graph);
  // By a hash of the attributes too: a long text has thousands of constants, which differ in these alone
  std::map<std::tuple<Op, DType, std::size_t, std::vector<ValueId>>, std::vector<ValueId>> seen;
  for (ValueId id = 0; id < graph.nodes.size(); ++id) {
    if (g.dead(id)) continue;
    const Node& x = g[id];
    if (x.op == Op::call && !graph.functions.at(x.attr.name)->returns_value) continue;
    auto inputs = x.inputs;
    if (operands_commute(x.op) && inputs[1] < inputs[0]) std::swap(inputs[0], inputs[1]);
    auto& candidates = seen[{x.op, x.dtype, ir::hash_of(x.attr), std::move(inputs)}];
    const auto same = std::find_if(candidates.begin(), candidates.end(), [&](ValueId other) {
      return g[other].axes == x.axes && ir::same_attributes(g[other].attr, x.attr);
    });
    if (same == candidates.end()) {
      candidates.push_back(id);
    } else {
      g.replace(id, *same);
    }
  }
  return std::move(g).finish();
}

}  // namespace unisono::passes
