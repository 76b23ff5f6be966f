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
    case StoreForm::scratch: return "scratch";
    case StoreForm::head: return "head";
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

bool is_resampled(const Store& s) { return s.form == StoreForm::max_pool_2x2 || s.form == StoreForm::upsample_2x2; }

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

// The store that the head of `from` multiplies
void split_head(const Graph& from, SplitStores& split) {
  const auto head = std::ranges::find(from.stores, StoreForm::head, &Store::form);
  if (head == from.stores.end()) return;
  const Store& source = head_source(from, *head);
  split.head = head->head, split.head_source = source.name, split.only_head = source.form == StoreForm::scratch;
}

}  // namespace

bool is_store_form(std::string_view name) {
  for (const StoreForm form : {StoreForm::max_pool_2x2, StoreForm::upsample_2x2, StoreForm::scratch, StoreForm::head})
    if (name == to_string(form)) return true;
  return false;
}

SplitStores split_stores(const Graph& graph) {
  SplitStores split{.graph = without_head(graph)};
  std::erase_if(split.graph.stores, is_resampled);
  split_resampled(graph, split);
  split_head(graph, split);
  return split;
}

const Store& head_source(const Graph& graph, const Store& head) {
  return *std::ranges::find_if(graph.stores, [&](const Store& s) {
    return s.value == head.value && (s.form == StoreForm::whole || s.form == StoreForm::scratch);
  });
}

Graph without_head(const Graph& graph) {
  Graph others = graph;
  std::erase_if(others.stores, [](const Store& s) { return s.form == StoreForm::head; });
  for (Store& s : others.stores)
    if (s.form == StoreForm::scratch) s.form = StoreForm::whole;
  return others;
}

Layout image_layout(const Contraction& contraction) {
  if (const auto* conv = std::get_if<Conv2d>(&contraction)) return conv->layout;
  if (const auto* transposed = std::get_if<ConvTranspose2d>(&contraction)) return transposed->layout;
  if (std::holds_alternative<Conv3d>(contraction)) return Layout::nhwc;
  throw UserError(fmt::format("{} has no image; expected a convolution", to_string(contraction)));
}

Contraction head_contraction(const Contraction& main, std::int64_t channels, DType type) {
  const Extents e = extents(main);
  if (const auto* g = std::get_if<Gemm>(&main)) {
    if (g->batch != 1)
      throw Unsupported(fmt::format("head: {} products in one; a head has one filter for all rows", g->batch));
    return Gemm{.m = g->m, .n = channels, .k = g->n, .transpose_b = true, .dtype_a = type, .dtype_b = type};
  }
  Conv2d c{.n = e.images, .h = e.height, .w = e.width, .c = e.cols, .k = channels};
  c.dtype_x = c.dtype_w = type, c.layout = image_layout(main);
  return c;
}

std::vector<std::int64_t> shape_of(StoreForm form, const Contraction& contraction) {
  auto shape = shape_mn(contraction);
  if (form == StoreForm::head) throw InternalError("the shape of a head without its store");
  if (form == StoreForm::whole || form == StoreForm::scratch) return shape;
  const std::size_t height = image_layout(contraction) == Layout::nhwc ? 1 : 2;
  for (const std::size_t axis : {height, height + 1})
    shape[axis] = form == StoreForm::max_pool_2x2 ? shape[axis] / 2 : shape[axis] * 2;
  return shape;
}

std::vector<std::int64_t> shape_of(const Store& store, const Contraction& contraction) {
  if (store.form != StoreForm::head) return shape_of(store.form, contraction);
  return shape_mn(head_contraction(contraction, store.head->channels, DType::f32));
}

void check_forms(const Graph& graph, const Contraction& contraction) {
  for (const Store& s : graph.stores) {
    if (is_resampled(s) && has_left_and_right(contraction))
      throw UserError(fmt::format("store {} ({}) is of {}, which has no image; expected a convolution", s.name,
                                  to_string(s.form), to_string(contraction)));
    if (is_resampled(s) && std::holds_alternative<Conv3d>(contraction))
      throw UserError(fmt::format("store {} ({}) is of {}, whose results are volumes; expected a convolution of images",
                                  s.name, to_string(s.form), to_string(contraction)));
    if (s.form == StoreForm::head) extents(head_contraction(contraction, s.head->channels, DType::f32));
  }
}

}  // namespace ir

}  // namespace unisono
