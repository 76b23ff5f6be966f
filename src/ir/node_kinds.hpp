#pragma once
/// What values of a graph are to passes and analyses of epilogues: elements, values of rows, reductions.

#include <algorithm>
#include <vector>

#include "ir/op_table.hpp"
#include "support/dtypes.hpp"
#include "unisono/graph.hpp"

namespace unisono::ir {

inline bool is_full(const Node& x) { return x.axes == axes::mn; }
inline bool is_row(const Node& x) { return x.axes == axes::m; }
inline bool is_grouped(const Node& x) { return x.axes.row == RowAxis::m && x.axes.col == ColAxis::g; }
inline bool has_rows(const Node& x) { return x.axes.row == RowAxis::m; }
inline bool is_short(DType t) { return support::is_short_float(t); }
inline bool over_rows(const Node& x) { return is_reduction(x.op) && x.attr.domain.rows; }
inline bool over_channels(const Node& x) { return is_reduction(x.op) && !x.attr.domain.rows; }

/// For each value, whether one that `is_root` is among what it is computed from (itself included).
template <class IsRoot>
std::vector<bool> depending(const Graph& g, IsRoot is_root) {
  std::vector<bool> depends(g.nodes.size());
  for (ValueId id = 0; id < g.nodes.size(); ++id)
    depends[id] = is_root(g[id]) || std::ranges::any_of(g[id].inputs, [&](ValueId in) { return depends[in]; });
  return depends;
}

/// For each value, whether elements that depend on reductions over rows read it: of elements that are computed from the
/// accumulators and depend on none. Until the reductions are complete, it has to wait.
inline std::vector<bool> read_behind_reductions(const Graph& g) {
  const std::vector<bool> late = depending(g, over_rows),
                          summed = depending(g, [](const Node&x) { return x.op == Op::acc || x.op == Op::acc1; });
  std::vector<bool> read(g.nodes.size());
  for (ValueId id = 0; id < g.nodes.size(); ++id)
    if (late[id] && is_full(g[id]))
      for (const ValueId in : g[id].inputs)
        if (is_full(g[in]) && summed[in] && !late[in]) read[in] = true;
  return read;
}

}  // namespace unisono::ir
