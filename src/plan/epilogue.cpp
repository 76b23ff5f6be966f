#include "plan/epilogue.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace unisono::plan {

std::vector<ValueId> RowFolds::reductions() const {
  std::vector<ValueId> all = folds;
  all.insert(all.end(), moments.begin(), moments.end());
  return all;
}

std::vector<ValueId> Stage::reductions() const {
  std::vector<ValueId> all = rows;
  if (norm) std::ranges::copy(norm->reductions(), std::back_inserter(all));
  all.insert(all.end(), groups.begin(), groups.end());
  for (const RowFolds& f : over_rows) std::ranges::copy(f.reductions(), std::back_inserter(all));
  return all;
}

const Normalisation* Epilogue::norm() const {
  const auto found = std::ranges::find_if(stages, [](const Stage& s) { return s.norm.has_value(); });
  return found == stages.end() ? nullptr : &*found->norm;
}
Normalisation* Epilogue::norm() { return const_cast<Normalisation*>(std::as_const(*this).norm()); }

const Stage* Epilogue::waiting() const {
  const auto found = std::ranges::find_if(stages, [](const Stage& s) { return s.waits.has_value(); });
  return found == stages.end() ? nullptr : &*found;
}
std::optional<ValueId> Epilogue::ahead() const {
  if (norm()) return norm()->input;
  return waiting() ? waiting()->waits : std::nullopt;
}
std::optional<ValueId> Epilogue::behind() const {
  if (norm()) return norm()->result;
  return waiting() ? waiting()->waits : std::nullopt;
}

std::optional<ExchangeDomain> Epilogue::exchanged() const {
  if (norm() && !norm()->per_pixel) return ExchangeDomain{norm()->group_channels, norm()->batch};
  if (!waiting()) return std::nullopt;
  const RowFolds& of = waiting()->over_rows.at(0);
  return ExchangeDomain{of.groups == 0 ? 1 : channels / of.groups, !of.per_image};
}

std::span<const Stage> Epilogue::levels() const {
  return {stages.data(), stages.size() - (stages.empty() || stages.back().read ? 0 : 1)};
}

const std::vector<RowFolds>& Epilogue::folds() const {
  static const std::vector<RowFolds> none;
  return stages.empty() || stages.back().read ? none : stages.back().over_rows;
}

bool Epilogue::reduces_rows() const {
  return std::ranges::any_of(levels(), [](const Stage& s) { return !s.rows.empty(); });
}
bool Epilogue::reduces_groups() const {
  return std::ranges::any_of(levels(), [](const Stage& s) { return !s.groups.empty(); });
}
bool Epilogue::returns() const {
  return std::ranges::any_of(levels(), [](const Stage& s) { return !s.over_rows.empty(); });
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
    for (const RowFolds& f : s.over_rows)
      for (const ValueId id : f.means) completes[id] = true;
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
             return std::ranges::any_of(s.over_rows, [](const RowFolds& f) { return f.per_image; });
           });
  return (exchanged() && !exchanged()->batch) || (!rows_after.empty() && std::ranges::any_of(graph.nodes, of_image)) ||
         std::any_of(columns_before.begin(), columns_before.end(), reads_image) ||
         std::any_of(columns_after.begin(), columns_after.end(), reads_image);
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
