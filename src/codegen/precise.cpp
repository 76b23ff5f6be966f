#include "codegen/precise.hpp"

#include "codegen/bounds.hpp"

namespace unisono::codegen {

namespace {

// Marks what the values are computed from, themselves included
void mark(const Graph& g, std::vector<ValueId> from, std::vector<bool>& marked) {
  while (!from.empty()) {
    const ValueId id = from.back();
    from.pop_back();
    if (marked[id]) continue;
    marked[id] = true;
    from.insert(from.end(), g[id].inputs.begin(), g[id].inputs.end());
  }
}

}  // namespace

std::vector<bool> precise_elements(const plan::Epilogue& epilogue) {
  const Graph& g = epilogue.graph;
  std::vector<ValueId> full, others;
  for (const Store& s : g.stores) {
    if (s.dtype == DType::bf16 || s.dtype == DType::f16) continue;
    (g[s.value].axes == axes::mn ? full : others).push_back(s.value);
  }
  for (const ValueId id : g.effects) full.push_back(id);
  std::vector<bool> precise(g.nodes.size()), reduced(g.nodes.size());
  mark(g, full, precise);
  mark(g, others, reduced);
  for (ValueId id = 0; id < g.nodes.size(); ++id)
    if ((reduced[id] || (g[id].axes.row == RowAxis::m && g[id].axes.col == ColAxis::g)) && is_coarse(g[id]))
      precise[id] = true;
  return precise;
}

}  // namespace unisono::codegen
