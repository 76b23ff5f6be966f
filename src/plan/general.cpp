#include "plan/general.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "ir/function_forms.hpp"
#include "ir/products.hpp"
#include "plan/general_analysis.hpp"
#include "plan/refusal.hpp"
#include "unisono/error.hpp"

namespace unisono::plan {

GeneralAnalysis::GeneralAnalysis(const Graph& graph, const Extents& extents, const TileLimits& limits)
    : extents_(extents), limits_(limits), stored_(e_.graph, late_, last_) {
  e_.graph = graph;
  e_.channels = extents.cols;
  e_.results = Results::again;
  const Graph& g = e_.graph;
  late_ = depending(g, over_rows);
  find_returned();
}

Expected<Epilogue> GeneralAnalysis::run() && {
  if (auto refusal = find_levels()) return *std::move(refusal);
  place_levels();
  for (const auto part :
       {&GeneralAnalysis::place_stores, &GeneralAnalysis::place_effects, &GeneralAnalysis::place_folds})
    if (auto refusal = (this->*part)()) return *std::move(refusal);
  read_leaves();
  rows_are_read_ |= e_.reduces_groups() || e_.returns();
  for (Stage& s : e_.stages) s.rows_wait = rows_are_read_ && !s.rows().empty();
  if (!last_.statistics.empty()) e_.stages.push_back(std::move(last_));
  return std::move(e_);
}

std::optional<Refusal> GeneralAnalysis::find_levels() {
  const Graph& g = e_.graph;
  level_.resize(g.nodes.size());
  for (ValueId id = 0; id < g.nodes.size(); ++id) {
    if (auto refusal = refuse(id)) return refusal;
    for (const ValueId in : g[id].inputs) level_[id] = std::max(level_[id], level_[in]);
    if (over_channels(g[id]) || returned_[id]) ++level_[id];
  }
  return std::nullopt;
}

std::optional<Refusal> GeneralAnalysis::refuse(ValueId id) const {
  const Graph& g = e_.graph;
  const Node& x = g[id];
  if (x.dtype == DType::f64) return refusal_at(g, id, "f64 arithmetic");
  if (ir::is_normalisation(x.op) || x.op == Op::softmax)
    throw InternalError(
        fmt::format("{} has not been split: analyse() takes graphs that went through the passes", to_string(x.op)));
  return ir::is_reduction(x.op) ? refuse_reduction(id) : std::nullopt;
}

// The reductions over rows that values of elements or rows are computed from
void GeneralAnalysis::find_returned() {
  const Graph& g = e_.graph;
  returned_.resize(g.nodes.size());
  std::vector<bool> seen(g.nodes.size());
  std::vector<ValueId> pending;
  for (const Node& x : g.nodes)
    if (has_rows(x)) pending.insert(pending.end(), x.inputs.begin(), x.inputs.end());
  while (!pending.empty()) {
    const ValueId id = pending.back();
    pending.pop_back();
    if (has_rows(g[id]) || !late_[id] || seen[id]) continue;
    seen[id] = true;
    if (over_rows(g[id]))
      returned_[id] = true;
    else
      pending.insert(pending.end(), g[id].inputs.begin(), g[id].inputs.end());
  }
}

std::optional<Refusal> GeneralAnalysis::refuse_reduction(ValueId id) const {
  const Graph& g = e_.graph;
  const Node &x = g[id], &in = g[x.inputs[0]];
  const ReduceDomain& d = x.attr.domain;
  const bool by_element = is_full(in) || is_grouped(in) || returned_[id];  // other rows are reduced as rows
  if (!has_rows(in) || (d.cols && !by_element) || (is_grouped(in) && d.rows && !d.cols && !returned_[id]))
    return refusal_at(g, id, fmt::format("a reduction of a value with axes {}", to_string(in.axes)));
  if (x.dtype == DType::i32 || x.dtype == DType::boolean)
    return refusal_at(g, id, fmt::format("a reduction in {}: cast its input to f32", to_string(x.dtype)));
  if (!d.rows && d.groups != 1 && extents_.cols / d.groups > limits_.channels)
    return refusal_at(
        g, id,
        fmt::format("a reduction over each of {} groups of {} channels; a tile has all of a group, {} at most",
                    d.groups, extents_.cols / d.groups, limits_.channels));
  if (!d.cols && is_row(in) && x.op == Op::variance && !returned_[id])
    return refusal_at(g, id, "a variance of a value per row");
  return std::nullopt;
}

void GeneralAnalysis::place_levels() {
  for (ValueId id = 0; id < e_.graph.nodes.size(); ++id) {
    if (!over_channels(e_.graph[id]) && !returned_[id]) continue;
    const auto level = static_cast<std::size_t>(level_[id] - 1);
    if (e_.stages.size() <= level) e_.stages.resize(level + 1);
    Stage& stage = e_.stages[level];
    if (over_channels(e_.graph[id])) stage.of(e_.graph[id].attr.domain).folds.push_back(id);
    if (level > 0) rows_are_read_ = true;
  }
  // Variances first: the mean of the same values comes with them
  for (const bool variances : {true, false})
    for (ValueId id = 0; id < e_.graph.nodes.size(); ++id)
      if (returned_[id] && (e_.graph[id].op == Op::variance) == variances) place_returned(id);
}

void GeneralAnalysis::place_returned(ValueId id) {
  const Graph& g = e_.graph;
  const Node& x = g[id];
  Statistics& of = e_.stages[static_cast<std::size_t>(level_[id] - 1)].of(x.attr.domain);
  const auto same = [&](ValueId variance) { return g[variance].inputs == x.inputs; };
  if (x.op == Op::variance)
    of.moments.push_back(id), of.means.push_back(id);
  else if (const auto with = std::ranges::find_if(of.moments, same); x.op == Op::mean && with != of.moments.end())
    of.means[static_cast<std::size_t>(with - of.moments.begin())] = id;
  else
    of.folds.push_back(id);
}

void GeneralAnalysis::read_leaves() {
  for (const Stage& s : e_.stages)
    for (const ValueId id : s.reductions()) roots_.push_back(e_.graph[id].inputs[0]);
  std::set<ValueId> seen, columns, tensors;
  std::vector<ValueId> pending = roots_;
  while (!pending.empty()) {
    const ValueId id = pending.back();
    pending.pop_back();
    const Node& x = e_.graph[id];
    if (!seen.insert(id).second || ir::is_accumulator(x.op) || (x.axes == axes::scalar && !late_[id])) continue;
    if (is_row(x)) {
      if (level_[id] > 0) rows_are_read_ = true;
    } else if (is_grouped(x)) {
      if (!over_channels(x)) pending.insert(pending.end(), x.inputs.begin(), x.inputs.end());
    } else if (!is_full(x)) {
      if (x.op != Op::index || x.attr.coordinate != Coordinate::n) columns.insert(id);
    } else if (x.op == Op::operand) {
      tensors.insert(id);
    } else {
      pending.insert(pending.end(), x.inputs.begin(), x.inputs.end());
    }
  }
  add_returned_columns(columns);
  e_.reads.columns.assign(columns.begin(), columns.end());
  e_.reads.tensors.assign(tensors.begin(), tensors.end());
  for (ValueId id = 0; id < e_.graph.nodes.size(); ++id)
    if (e_.graph[id].axes == axes::scalar && e_.graph[id].op != Op::constant && !late_[id]) e_.uniforms.push_back(id);
}

// What rows read of other rows' reductions, and these themselves if a later level may need them
void GeneralAnalysis::add_returned_columns(std::set<ValueId>& columns) const {
  const Graph& g = e_.graph;
  for (ValueId id = 0; id < g.nodes.size(); ++id) {
    if (returned_[id] && e_.stages.size() > 1) columns.insert(id);
    if (!is_row(g[id])) continue;
    for (const ValueId in : g[id].inputs)
      if (!has_rows(g[in]) && late_[in]) columns.insert(in);
  }
}

bool needs_general(const Graph& g) {
  const auto late = depending(g, over_rows);
  std::size_t elements = 0;
  bool beyond = !g.effects.empty();
  for (ValueId id = 0; id < g.nodes.size(); ++id) {
    const Node& x = g[id];
    if (x.axes.row == RowAxis::m && late[id]) return false;  // elements read statistics of many rows
    beyond |= x.op == Op::index || x.op == Op::one_hot || (is_row(x) && x.op == Op::operand);
    beyond |= ir::call_forms(g, id) != 0;  // elements are computed several at a time
  }
  for (const Store& s : g.stores) {
    const Node& x = g[s.value];
    beyond |= late[s.value] || is_row(x) || (is_full(x) && (!is_short(s.dtype) || s.strided));
    elements += is_full(x) ? 1 : 0;
  }
  return beyond || elements > 2;
}

Expected<Epilogue> analyse_general(const Graph& graph, const Extents& extents, const TileLimits& limits) {
  return GeneralAnalysis(graph, extents, limits).run();
}

}  // namespace unisono::plan
