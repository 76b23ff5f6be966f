#include "plan/epilogue.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace unisono::plan {

namespace {

void append(std::vector<ValueId>& to, const std::vector<ValueId>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

// In the order in which a stage has them
int kind_of(const ReduceDomain& d) { return d.rows ? 2 : d.groups > 1 ? 1 : 0; }

}  // namespace

bool Statistics::runs_over(const ReduceDomain& other) const {
  return domain.rows == other.rows && domain.per_image == other.per_image &&
         groups() == (other.cols ? other.groups : 0);
}

std::vector<ValueId> Statistics::reductions() const {
  std::vector<ValueId> all = folds;
  append(all, moments);
  return all;
}

std::vector<ValueId> Stage::reductions() const {
  std::vector<ValueId> all = rows();
  if (affine) append(all, affine->reductions());
  append(all, groups());
  for (const Statistics& s : over_rows()) append(all, s.reductions());
  return all;
}

std::vector<ValueId> Stage::rows() const {
  std::vector<ValueId> all;
  for (const Statistics& s : statistics)
    if (!affine && kind_of(s.domain) == 0) append(all, s.folds);
  return all;
}
std::vector<ValueId> Stage::groups() const {
  std::vector<ValueId> all;
  for (const Statistics& s : statistics)
    if (!affine && kind_of(s.domain) == 1) append(all, s.folds);
  std::ranges::sort(all);  // as the graph has them, of any width
  return all;
}
std::vector<Statistics> Stage::over_rows() const {
  std::vector<Statistics> all;
  for (const Statistics& s : statistics)
    if (!affine && kind_of(s.domain) == 2) all.push_back(s);
  return all;
}

Statistics& Stage::of(const ReduceDomain& domain) {
  const auto found = std::ranges::find_if(statistics, [&](const Statistics& s) { return s.runs_over(domain); });
  if (found != statistics.end()) return *found;
  const auto behind =
      std::ranges::find_if(statistics, [&](const Statistics& s) { return kind_of(s.domain) > kind_of(domain); });
  return *statistics.insert(behind, Statistics{.domain = domain, .folds = {}});
}

const passes::Affine* Epilogue::norm() const {
  const auto found = std::ranges::find_if(stages, [](const Stage& s) { return s.affine.has_value(); });
  return found == stages.end() ? nullptr : &*found->affine;
}

std::optional<StatisticsDomain> Epilogue::normalised() const {
  const auto found = std::ranges::find_if(stages, [](const Stage& s) { return s.affine.has_value(); });
  if (found == stages.end()) return std::nullopt;
  const ReduceDomain& d = found->statistics.at(0).domain;
  return StatisticsDomain{d.cols ? channels / d.groups : 1, d.rows && !d.per_image, !d.rows};
}
bool Epilogue::normalises_rows() const { return normalised() && normalised()->of_rows; }

const Stage* Epilogue::exchanging() const {
  const auto found = std::ranges::find_if(stages, [](const Stage& s) { return s.waits && !s.affine; });
  return found == stages.end() ? nullptr : &*found;
}
const ElementReads& Epilogue::ahead_of_stages() const {
  static const ElementReads none;
  return stages.empty() ? none : stages.front().reads;
}
std::optional<ValueId> Epilogue::ahead() const {
  const auto found = std::ranges::find_if(stages, [](const Stage& s) { return s.waits.has_value(); });
  return found == stages.end() ? std::nullopt : found->waits;
}
std::optional<ValueId> Epilogue::behind() const { return norm() ? norm()->result : ahead(); }

std::optional<StatisticsDomain> Epilogue::exchanged() const {
  if (norm()) return normalises_rows() ? std::nullopt : normalised();
  if (!exchanging()) return std::nullopt;
  const Statistics& of = exchanging()->statistics.at(0);
  return StatisticsDomain{of.groups() == 0 ? 1 : channels / of.groups(), !of.domain.per_image};
}

std::span<const Stage> Epilogue::levels() const {
  return {stages.data(), stages.size() - (stages.empty() || stages.back().read ? 0 : 1)};
}

std::vector<Statistics> Epilogue::folds() const {
  return stages.empty() || stages.back().read ? std::vector<Statistics>() : stages.back().over_rows();
}

bool Epilogue::reduces_rows() const {
  return std::ranges::any_of(levels(), [](const Stage& s) { return !s.rows().empty(); });
}
bool Epilogue::reduces_groups() const {
  return std::ranges::any_of(levels(), [](const Stage& s) { return !s.groups().empty(); });
}
bool Epilogue::returns() const {
  return std::ranges::any_of(levels(), [](const Stage& s) { return !s.over_rows().empty(); });
}

DType storage_of(const Epilogue& e, ValueId operand) {
  const Node& x = e.graph[operand];
  if (x.attr.storage) return *x.attr.storage;
  const auto bound = e.storage.find(x.attr.name);
  return bound == e.storage.end() ? DType::f32 : bound->second;
}

bool Epilogue::side_before() const { return outputs.size() > 1 && outputs[1].path == Output::StorePath::before; }
bool Epilogue::side_after() const { return outputs.size() > 1 && outputs[1].path == Output::StorePath::after; }

bool Epilogue::rows_wait() const {
  return std::ranges::any_of(levels(), [](const Stage& s) { return s.rows_wait; });
}

std::vector<int> Epilogue::levels_of_values() const {
  std::vector<bool> completes(graph.nodes.size());
  for (const Stage& s : levels()) {
    for (const ValueId id : s.reductions()) completes[id] = true;
    for (const Statistics& of : s.statistics)
      for (const ValueId id : of.means) completes[id] = true;
  }
  std::vector<int> level(graph.nodes.size());
  for (ValueId id = 0; id < graph.nodes.size(); ++id) {
    for (const ValueId in : graph[id].inputs) level[id] = std::max(level[id], level[in]);
    if (completes[id]) ++level[id];
  }
  return level;
}

bool Epilogue::wide_main() const {
  return results == Results::any && graph.stores[outputs.at(0).store].dtype == DType::f32;
}

bool Epilogue::per_image() const {
  const auto of_image = [](const Node& x) { return x.axes.row == RowAxis::b; };
  const auto reads_image = [&](ValueId id) { return of_image(graph[id]); };
  if (general())
    return std::ranges::any_of(graph.nodes, of_image) || std::ranges::any_of(stages, [](const Stage& s) {
             return std::ranges::any_of(s.statistics, [](const Statistics& of) { return of.domain.per_image; });
           });
  return (exchanged() && !exchanged()->batch) || (!reads.rows.empty() && std::ranges::any_of(graph.nodes, of_image)) ||
         std::ranges::any_of(ahead_of_stages().columns, reads_image) || std::ranges::any_of(reads.columns, reads_image);
}

bool places(const Graph& graph) {
  return std::ranges::any_of(graph.nodes, is_placed) ||
         std::ranges::any_of(graph.stores, [](const Store& s) { return s.strided; });
}

std::optional<std::size_t> main_store(const Epilogue& e) {
  const auto main = std::ranges::find_if(e.outputs, [](const Output& o) {
    return o.path == Output::StorePath::before || o.path == Output::StorePath::after;
  });
  return main == e.outputs.end() ? std::nullopt : std::optional(main->store);
}

}  // namespace unisono::plan
