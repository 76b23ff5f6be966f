#include "passes/moments.hpp"

#include "ir/node_kinds.hpp"
#include "ir/op_table.hpp"

namespace unisono::passes {

std::set<ValueId> stored_alone(const Graph& g) {
  std::vector<bool> read(g.nodes.size());  // by elements or rows
  for (ValueId id = static_cast<ValueId>(g.nodes.size()); id-- > 0;)
    if (ir::has_rows(g[id]) || (read[id] && !ir::over_rows(g[id])))
      for (const ValueId in : g[id].inputs) read[in] = true;
  std::set<ValueId> all;
  for (ValueId id = 0; id < g.nodes.size(); ++id)
    if (ir::over_rows(g[id]) && !read[id]) all.insert(id);
  return all;
}

std::optional<AffineForm> moments_form(const Graph& g, const std::set<ValueId>& others) {
  Affine part;
  const Node* first = nullptr;
  for (ValueId id = 0; id < g.nodes.size(); ++id) {
    const Node& x = g[id];
    if (!ir::is_reduction(x.op) || others.contains(id)) continue;
    if (first == nullptr) first = &x;
    const ReduceDomain& d = x.attr.domain;
    if ((x.op != Op::mean && x.op != Op::variance) || x.dtype != DType::f32 || !ir::is_full(g[x.inputs[0]]) ||
        x.inputs[0] != first->inputs[0] || !(d == first->attr.domain) || (!d.rows && d.groups != 1))
      return {};
    part.input = x.inputs[0];
    (x.op == Op::mean ? part.mean : part.variance) = id;
  }
  if (first == nullptr) return {};
  return affine_form(g, part, !first->attr.domain.rows);
}

}  // namespace unisono::passes
