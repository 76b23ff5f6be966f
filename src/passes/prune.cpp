#include "passes/prune.hpp"

#include "passes/editor.hpp"

namespace unisono::passes {

Graph prune(const Graph& graph) { return live_in_order(graph); }

Graph number_nodes(const Graph& graph) {
  std::vector<ValueId> roots;
  for (const Store& s : graph.stores) roots.push_back(s.value);
  roots.insert(roots.end(), graph.effects.begin(), graph.effects.end());
  return in_depth_first_order(graph, roots);
}

}  // namespace unisono::passes
