#include "ir/store_forms.hpp"

#include <fmt/format.h>

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

bool is_resampled(const Store& s) { return s.form != StoreForm::whole; }

}  // namespace

bool is_store_form(std::string_view name) {
  return name == to_string(StoreForm::max_pool_2x2) || name == to_string(StoreForm::upsample_2x2);
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
      throw UserError(fmt::format("store {} ({}) belongs to {}, which has no image; expected a convolution", s.name,
                                  to_string(s.form), to_string(contraction)));
    if (is_resampled(s) && std::holds_alternative<Conv3d>(contraction))
      throw UserError(
          fmt::format("store {} ({}) belongs to {}, whose results are volumes; expected a convolution of images",
                      s.name, to_string(s.form), to_string(contraction)));
  }
}

}  // namespace ir

}  // namespace unisono
