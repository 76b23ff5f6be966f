// Where the results of a general epilogue are stored, and which reductions are.

#include <fmt/format.h>

#include <algorithm>

#include "plan/general_analysis.hpp"
#include "plan/refusal.hpp"

namespace unisono::plan {

std::optional<Refusal> GeneralAnalysis::place_stores() {
  const Graph& g = e_.graph;
  std::vector<std::size_t> tiled, direct;
  for (std::size_t i = g.stores.size(); i-- > 0;) {
    const Store& s = g.stores[i];
    std::optional<Refusal> refusal = refuse_type(s);
    if (refusal) return refusal;
    if (late_[s.value] && !has_rows(g[s.value]))
      refusal = place_late(i);
    else if (is_row(g[s.value]))
      e_.outputs.push_back({i, StorePath::row});
    else if (is_grouped(g[s.value]))
      refusal = place_grouped(i);
    else if (!is_full(g[s.value]))
      refusal =
          refusal_at(g, s.value, fmt::format("a store with axes {} that reads no element", to_string(g[s.value].axes)));
    else
      (is_short(s.dtype) && !s.strided && tiled.size() < 2 ? tiled : direct).push_back(i);
    if (refusal) return refusal;
  }
  std::vector<Output> all;
  for (const std::size_t i : tiled) all.push_back({i, StorePath::after});
  for (const std::size_t i : direct) all.push_back({i, StorePath::direct});
  e_.outputs.insert(e_.outputs.begin(), all.begin(), all.end());
  for (const Output& o : e_.outputs)
    if (o.path == StorePath::after || o.path == StorePath::direct) roots_.push_back(g.stores[o.store].value);
  return std::nullopt;
}

// A row's lanes store it, which know no columns that came of other rows
std::optional<Refusal> GeneralAnalysis::place_grouped(std::size_t store) {
  const Graph& g = e_.graph;
  std::vector<ValueId> pending{g.stores[store].value};
  while (!pending.empty()) {
    const ValueId id = pending.back();
    pending.pop_back();
    if (is_row(g[id]) || over_channels(g[id])) continue;
    if (!has_rows(g[id]) && late_[id])
      return refusal_at(g, g.stores[store].value,
                        "it is stored for groups of a row's channels and reads a reduction over rows");
    pending.insert(pending.end(), g[id].inputs.begin(), g[id].inputs.end());
  }
  e_.outputs.push_back({store, StorePath::grouped});
  return std::nullopt;
}

std::optional<Refusal> GeneralAnalysis::refuse_type(const Store& s) const {
  constexpr DType served[] = {DType::bf16, DType::f16, DType::f32, DType::i32, DType::boolean};
  if (std::ranges::find(served, s.dtype) != std::end(served)) return std::nullopt;
  return refusal_at(e_.graph, s.value,
                    fmt::format("results are bf16, f16, f32, i32 or bool, and {} is {}", s.name, to_string(s.dtype)));
}

// A function of reductions that share what they run over
std::optional<Refusal> GeneralAnalysis::place_late(std::size_t store) {
  if (auto refusal = stored_.place(store)) return refusal;
  e_.outputs.push_back({store, StorePath::reduced});
  return std::nullopt;
}

std::optional<Refusal> GeneralAnalysis::place_folds() {
  for (const ValueId id : stored_.found())
    if (auto refusal = place_fold(id)) return refusal;
  return std::nullopt;
}

std::optional<Refusal> GeneralAnalysis::place_fold(ValueId id) {
  stored_.add(id);
  const ValueId in = e_.graph[id].inputs[0];
  const bool of_rows = is_row(e_.graph[in]), channels = e_.graph[id].attr.domain.cols;
  if ((of_rows && (channels || e_.graph[id].op == Op::variance)) || (is_grouped(e_.graph[in]) && !channels))
    return refusal_at(e_.graph, id,
                      fmt::format("it is stored, a reduction of a value with axes {}", to_string(e_.graph[in].axes)));
  if (!of_rows)
    roots_.push_back(in);
  else if (!e_.stages.empty())
    rows_are_read_ = true;  // rows end once, with what they add to this: when their own reductions are complete
  return std::nullopt;
}

std::optional<Refusal> GeneralAnalysis::place_effects() {
  const Graph& g = e_.graph;
  for (const ValueId id : g.effects) {
    if (is_full(g[id]))
      roots_.push_back(id);
    else if (!is_row(g[id]))
      return refusal_at(g, id, fmt::format("a function called for its effect with axes {}", to_string(g[id].axes)));
  }
  return std::nullopt;
}

}  // namespace unisono::plan
