#include "plan/epilogue.hpp"

#include <algorithm>

namespace unisono::plan {

bool General::reduces_rows() const {
  return std::ranges::any_of(levels, [](const auto& level) { return !level.empty(); });
}
bool General::reduces_groups() const {
  return std::ranges::any_of(group_levels, [](const auto& level) { return !level.empty(); });
}
bool General::returns() const {
  return std::ranges::any_of(returned, [](const auto& level) { return !level.empty(); });
}

const std::vector<General::Domain>& stored_folds(const Epilogue& e) { return e.general ? e.general->domains : e.folds; }

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
