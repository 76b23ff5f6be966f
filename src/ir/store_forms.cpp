#include "ir/store_forms.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "unisono/error.hpp"

namespace unisono {

std::string_view to_string(StoreForm form) {
  switch (form) {
    case StoreForm::whole: return "";
    case StoreForm::max_pool_2x2: return "max_pool_2x2";
    case StoreForm::upsample_2x2: return "upsample_2x2";
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

bool is_store_form(std::string_view name) {
  return name == to_string(StoreForm::max_pool_2x2) || name == to_string(StoreForm::upsample_2x2);
}

SplitStores split_stores(const Graph& graph) {
  SplitStores split{.graph = graph};
  std::erase_if(split.graph.stores, is_resampled);
  split_resampled(graph, split);
  return split;
}

Layout image_layout(const Contraction& contraction) {
  if (const auto* conv = std::get_if<Conv2d>(&contraction)) return conv->layout;
  if (const auto* transposed = std::get_if<ConvTranspose2d>(&contraction)) return transposed->layout;
  if (std::holds_alternative<Conv3d>(contraction)) return Layout::nhwc;
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
  for (const Store& s : graph.stores) {
    if (is_resampled(s) && has_left_and_right(contraction))
      throw UserError(fmt::format("store {} ({}) is of {}, which has no image; expected a convolution", s.name,
                                  to_string(s.form), to_string(contraction)));
    if (is_resampled(s) && std::holds_alternative<Conv3d>(contraction))
      throw UserError(fmt::format("store {} ({}) is of {}, whose results are volumes; expected a convolution of images",
                                  s.name, to_string(s.form), to_string(contraction)));
  }
}

}  // namespace ir

}  // namespace unisono
