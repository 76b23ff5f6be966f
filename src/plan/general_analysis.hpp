#pragma once
/// The analysis of an epilogue of the mode `general`: which values are known when, and where each result is stored.

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "ir/op_table.hpp"
#include "plan/epilogue.hpp"
#include "plan/expected.hpp"
#include "plan/tile_limits.hpp"
#include "unisono/contraction.hpp"

namespace unisono::plan {

inline bool is_full(const Node& x) { return x.axes == axes::mn; }
inline bool is_row(const Node& x) { return x.axes == axes::m; }
inline bool is_grouped(const Node& x) { return x.axes.row == RowAxis::m && x.axes.col == ColAxis::g; }
inline bool has_rows(const Node& x) { return x.axes.row == RowAxis::m; }
inline bool is_short(DType t) { return t == DType::bf16 || t == DType::f16; }
inline bool over_rows(const Node& x) { return ir::is_reduction(x.op) && x.attr.domain.rows; }
inline bool over_channels(const Node& x) { return ir::is_reduction(x.op) && !x.attr.domain.rows; }

/// For each value, whether one that `is_root` is among what it is computed from (itself included).
template <class IsRoot>
std::vector<bool> depending(const Graph& g, IsRoot is_root) {
  std::vector<bool> depends(g.nodes.size());
  for (ValueId id = 0; id < g.nodes.size(); ++id)
    depends[id] = is_root(g[id]) || std::ranges::any_of(g[id].inputs, [&](ValueId in) { return depends[in]; });
  return depends;
}

class GeneralAnalysis {
 public:
  GeneralAnalysis(const Graph& optimised, const Extents& extents, const TileLimits& limits);
  Expected<Epilogue> run() &&;

 private:
  using StorePath = Output::StorePath;

  std::optional<Refusal> refuse(ValueId id) const;
  std::optional<Refusal> find_levels();
  void find_returned();
  std::optional<Refusal> refuse_reduction(ValueId id) const;
  void place_levels();
  void place_returned(ValueId id);

  // Results
  std::optional<Refusal> place_stores();
  std::optional<Refusal> place_grouped(std::size_t store);
  std::optional<Refusal> refuse_type(const Store& s) const;
  General::Domain& domain_of(ValueId reduction);
  std::optional<Refusal> place_late(std::size_t store);
  std::optional<Refusal> place_folds();
  std::optional<Refusal> place_fold(ValueId id);
  std::optional<Refusal> place_effects();

  // What elements read
  void read_leaves();
  void add_returned_columns(std::set<ValueId>& columns) const;

  Extents extents_;
  TileLimits limits_;
  Epilogue e_;
  std::vector<bool> late_, returned_;
  std::set<ValueId> stored_;  // reductions over rows
  std::vector<int> level_;
  std::vector<ValueId> roots_;
};

}  // namespace unisono::plan
