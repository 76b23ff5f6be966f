#include "plan/visitor_shape.hpp"

#include <algorithm>

namespace unisono::plan {
namespace {

bool depends_on(const Graph& graph, ValueId value, const std::vector<bool>& marked) {
  return std::ranges::any_of(graph[value].inputs, [&](ValueId i) { return marked[i]; });
}

bool scalar(const Axes& axes) { return axes.row == RowAxis::none && axes.col == ColAxis::none; }

}  // namespace

std::vector<ValueId> late_values(const Epilogue& epilogue) {
  if (!epilogue.norm()) return {};
  const Graph& graph = epilogue.graph;
  const passes::Affine& norm = *epilogue.norm();
  std::vector<bool> statistic(graph.nodes.size()), needed(graph.nodes.size()), late(graph.nodes.size());
  for (const ValueId id : norm.reductions()) statistic[id] = true;
  for (ValueId id = 0; id < graph.nodes.size(); ++id)
    if (depends_on(graph, id, statistic)) statistic[id] = true;
  for (const auto& id : {norm.factor, norm.shift})
    if (id) needed[*id] = true;
  const std::vector<ValueId> reductions = norm.reductions();
  for (ValueId id = static_cast<ValueId>(graph.nodes.size()); id-- > 0;) {
    if (!needed[id]) continue;
    if (!statistic[id])
      late[id] = !scalar(graph[id].axes);
    else if (std::ranges::find(reductions, id) == reductions.end())
      for (const ValueId input : graph[id].inputs) needed[input] = true;
  }
  std::vector<ValueId> values;
  for (ValueId id = 0; id < graph.nodes.size(); ++id)
    if (late[id]) values.push_back(id);
  return values;
}

namespace {

/// What epilogue/returned.cuh counts of a level.
void add_returned(VisitorShape& shape, const std::vector<Statistics>& level) {
  int words = 0;
  for (const Statistics& d : level) {
    words += static_cast<int>(d.folds.size() + 2 * d.moments.size());
    shape.returned_planes += static_cast<int>(d.folds.size() + 3 * d.moments.size());
    shape.returned_entries += (returned_values(d) + 2) / 3;
    shape.returns_all |= !d.domain.per_image;
  }
  shape.own_words = std::max(shape.own_words, words);
  ++shape.returned_levels;
  shape.returning_levels += level.empty() ? 0 : 1;
  shape.returns |= !level.empty();
}

}  // namespace

int returned_values(const Statistics& d) { return static_cast<int>(d.folds.size() + 2 * d.moments.size()); }

FoldCounts fold_counts(const Epilogue& epilogue) {
  FoldCounts counts;
  for (const Statistics& d : epilogue.folds()) {
    (d.groups() == 1 ? counts.tile : counts.channel) += static_cast<int>(d.folds.size());
    counts.moments += static_cast<int>(d.moments.size());
  }
  return counts;
}

std::vector<bool> behind_statistics(const Epilogue& epilogue) {
  std::vector<bool> behind(epilogue.graph.nodes.size());
  if (epilogue.norm()) behind[epilogue.norm()->result] = true;
  if (const Stage* stage = epilogue.exchanging())
    for (const ValueId id : stage->reductions()) behind[id] = true;
  for (ValueId id = 0; id < behind.size(); ++id) behind[id] = behind[id] || depends_on(epilogue.graph, id, behind);
  return behind;
}

VisitorShape visitor_shape(const Epilogue& epilogue) {
  VisitorShape shape;
  shape.normalises = epilogue.ahead().has_value();
  if (const Stage* stage = epilogue.exchanging()) shape.exchanged = static_cast<int>(stage->reductions().size());
  shape.short_tensors_before =
      shape.normalises && std::ranges::any_of(epilogue.ahead_of_stages().tensors, [&](ValueId id) {
        const DType t = storage_of(epilogue, id);
        return t == DType::bf16 || t == DType::f16;
      });
  shape.general = epilogue.general();
  const FoldCounts counts = fold_counts(epilogue);
  shape.fold_words = counts.channel + 2 * counts.moments, shape.tile_folds = counts.tile;
  shape.fold_planes = counts.channel + 3 * counts.moments;
  shape.own_words = shape.fold_words;
  const std::vector<bool> behind = behind_statistics(epilogue);
  for (const Statistics& d : epilogue.folds())
    for (const ValueId id : d.reductions())
      shape.folds_ahead |= shape.normalises && !behind[epilogue.graph[id].inputs[0]];
  if (shape.general) {
    int all_row_folds = 0;
    for (const Stage& s : epilogue.levels()) {
      const auto folds = static_cast<int>(s.rows().size());
      shape.row_folds = std::max(shape.row_folds, folds), shape.row_entries += (folds + 2) / 3;
      for (const ValueId id : s.groups()) shape.group_widths.push_back(epilogue.group_width(epilogue.graph[id]));
      add_returned(shape, s.over_rows());
      all_row_folds += folds;
      if (!s.over_rows().empty()) shape.kept_row_folds = all_row_folds;
    }
  }
  shape.columns_before = static_cast<int>(epilogue.ahead_of_stages().columns.size());
  shape.columns_after = static_cast<int>(epilogue.reads.columns.size());
  shape.late_words = static_cast<int>(late_values(epilogue).size());
  shape.side = epilogue.side_before()  ? VisitorShape::Side::before
               : epilogue.side_after() ? VisitorShape::Side::after
                                       : VisitorShape::Side::none;
  return shape;
}

}  // namespace unisono::plan
