#include "plan/epilogue.hpp"

#include <algorithm>
#include <iterator>

namespace unisono::plan {

std::vector<ValueId> RowFolds::reductions() const {
  std::vector<ValueId> all = folds;
  all.insert(all.end(), moments.begin(), moments.end());
  return all;
}

std::vector<ValueId> Stage::reductions() const {
  std::vector<ValueId> all = rows;
  all.insert(all.end(), groups.begin(), groups.end());
  for (const RowFolds& f : returned) std::ranges::copy(f.reductions(), std::back_inserter(all));
  return all;
}

bool General::reduces_rows() const {
  return std::ranges::any_of(stages, [](const Stage& s) { return !s.rows.empty(); });
}
bool General::reduces_groups() const {
  return std::ranges::any_of(stages, [](const Stage& s) { return !s.groups.empty(); });
}
bool General::returns() const {
  return std::ranges::any_of(stages, [](const Stage& s) { return !s.returned.empty(); });
}

DType storage_of(const Epilogue& e, ValueId operand) {
  const Node& x = e.graph[operand];
  if (x.attr.storage) return *x.attr.storage;
  const auto bound = e.storage.find(x.attr.name);
  return bound == e.storage.end() ? DType::f32 : bound->second;
}

bool Epilogue::side_before() const { return outputs.size() > 1 && outputs[1].path == Output::StorePath::before; }
bool Epilogue::side_after() const { return outputs.size() > 1 && outputs[1].path == Output::StorePath::after; }

bool Epilogue::wide_main() const { return second_pass && graph.stores[outputs.at(0).store].dtype == DType::f32; }

bool Epilogue::per_image() const {
  const auto of_image = [](const Node& x) { return x.axes.row == RowAxis::b; };
  const auto reads_image = [&](ValueId id) { return of_image(graph[id]); };
  if (general) return general->per_image;
  return (norm && !norm->per_pixel && !norm->batch) ||
         (!rows_after.empty() && std::ranges::any_of(graph.nodes, of_image)) ||
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
