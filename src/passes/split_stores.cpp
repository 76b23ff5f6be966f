#include "passes/split_stores.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace unisono::passes {

namespace {

bool is_taken(const Graph& g, const std::string& name) {
  return std::ranges::any_of(g.stores, [&](const Store& s) { return s.name == name; }) ||
         std::ranges::any_of(g.nodes, [&](const Node& x) { return x.op == Op::operand && x.attr.name == name; });
}

std::string free_name(const Graph& g) {
  std::string name = "small";
  for (int i = 2; is_taken(g, name); ++i) name = fmt::format("small{}", i);
  return name;
}

bool is_resampled(const Store& s) { return s.form != StoreForm::whole; }

// What the resampled stores of `from` are made of, in a graph without them
void split_resampled(const Graph& from, SplitStores& split) {
  auto& stores = split.graph.stores;
  const Store* made = nullptr;
  for (const Store& s : from.stores) {
    if (!is_resampled(s)) continue;
    made = &s;
    (s.form == StoreForm::max_pool_2x2 ? split.pooled : split.upsampled) = s.name;
  }
  if (made == nullptr) return;
  // The last one, as kernels pool and upsample the store that they write last
  const auto source = std::find_if(stores.rbegin(), stores.rend(),
                                   [&](const Store& s) { return s.value == made->value && s.dtype == made->dtype; });
  split.only_upsampled = source == stores.rend();
  split.source = split.only_upsampled ? free_name(from) : source->name;
  if (split.only_upsampled) stores.push_back({made->value, made->dtype, split.source});
}

}  // namespace

SplitStores split_stores(const Graph& graph) {
  SplitStores split{.graph = graph};
  std::erase_if(split.graph.stores, is_resampled);
  split_resampled(graph, split);
  return split;
}

}  // namespace unisono::passes
