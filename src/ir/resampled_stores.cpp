#include "ir/resampled_stores.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "unisono/error.hpp"

namespace unisono {

std::string_view to_string(StoreForm form) {
  switch (form) {
    case StoreForm::whole: return "";
    case StoreForm::max_pool_2x2: return "max_pool_2x2";
    case StoreForm::enlarge_2x2: return "enlarge_2x2";
  }
  return "?";
}

namespace ir {

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

}  // namespace

SplitStores split_stores(const Graph& graph) {
  SplitStores split{.graph = graph};
  auto& stores = split.graph.stores;
  const Store* made = nullptr;
  for (const Store& s : graph.stores) {
    if (s.form == StoreForm::whole) continue;
    made = &s;
    (s.form == StoreForm::max_pool_2x2 ? split.pooled : split.enlarged) = s.name;
  }
  if (made == nullptr) return split;
  std::erase_if(stores, [](const Store& s) { return s.form != StoreForm::whole; });
  // The last one, as kernels pool and enlarge the store that they write last
  const auto source = std::find_if(stores.rbegin(), stores.rend(),
                                   [&](const Store& s) { return s.value == made->value && s.dtype == made->dtype; });
  split.only_enlarged = source == stores.rend();
  split.source = split.only_enlarged ? free_name(graph) : source->name;
  if (split.only_enlarged) stores.push_back({made->value, made->dtype, split.source});
  return split;
}

Layout image_layout(const Contraction& contraction) {
  if (const auto* conv = std::get_if<Conv2d>(&contraction)) return conv->layout;
  if (const auto* transposed = std::get_if<ConvTranspose2d>(&contraction)) return transposed->layout;
  throw UserError(fmt::format("{} has no image; expected a convolution", to_string(contraction)));
}

std::vector<std::int64_t> shape_of(StoreForm form, const Contraction& contraction) {
  auto shape = shape_mn(contraction);
  if (form == StoreForm::whole) return shape;
  const std::size_t height = image_layout(contraction) == Layout::nhwc ? 1 : 2;
  for (const std::size_t axis : {height, height + 1})
    shape[axis] = form == StoreForm::max_pool_2x2 ? shape[axis] / 2 : shape[axis] * 2;
  return shape;
}

void check_forms(const Graph& graph, const Contraction& contraction) {
  for (const Store& s : graph.stores)
    if (s.form != StoreForm::whole && std::holds_alternative<Gemm>(contraction))
      throw UserError(fmt::format("store {} ({}) is of {}, which has no image; expected a convolution", s.name,
                                  to_string(s.form), to_string(contraction)));
}

}  // namespace ir

}  // namespace unisono
