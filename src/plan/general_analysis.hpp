#pragma once
/// The analysis of an epilogue of the mode `general`: which values are known when, and where each result is stored.

#include <optional>
#include <set>
#include <vector>

#include "ir/node_kinds.hpp"
#include "plan/epilogue.hpp"
#include "plan/expected.hpp"
#include "plan/stored_folds.hpp"
#include "plan/tile_limits.hpp"
#include "unisono/contraction.hpp"

namespace unisono::plan {

using ir::depending, ir::has_rows, ir::is_full, ir::is_grouped, ir::is_row, ir::is_short, ir::over_channels,
    ir::over_rows;

class GeneralAnalysis {
 public:
  GeneralAnalysis(const Graph& graph, const Extents& extents, const TileLimits& limits);
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
  Stage last_{.read = false};
  StoredFolds stored_;
  std::vector<int> level_;      // stages that are complete before a value
  bool rows_are_read_ = false;  // something reads a reduction over a row's channels, or waits for one
  std::vector<ValueId> roots_;
};

}  // namespace unisono::plan
