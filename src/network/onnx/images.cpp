/// Pooling and Resize.

#include <cmath>

#include "network/onnx/windows.hpp"

namespace coda::network::onnx_import {

namespace {

void import_pool(const NodeReader& node, bool average) {
  const NetworkValue x = node.value(0);
  if (node.integer("storage_order", 0) != 0)
    node.fail("storage_order is {}; expected 0", node.integer("storage_order", 0));
  const Window f = read_window(node, x.shape(), std::nullopt);
  node.result(node.apply(operators::Pool2d{.average = average,
                                           .kernel = f.kernel,
                                           .stride = f.stride,
                                           .pad = f.pad,
                                           .dilation = f.dilation,
                                           .ceil_mode = node.integer("ceil_mode", 0) != 0,
                                           .count_pad = average && node.integer("count_include_pad", 0) != 0},
                         {x}));
}

void import_max_pool(const NodeReader& node) { import_pool(node, false); }
void import_average_pool(const NodeReader& node) { import_pool(node, true); }
void import_global_average_pool(const NodeReader& node) {
  node.result(node.apply(operators::GlobalAveragePool{}, {node.value(0)}));
}

template <class T>
struct Choice {
  std::string_view name;
  T value;
};

template <class T, std::size_t n>
T choose(const NodeReader& node, std::string_view attribute, std::string_view otherwise,
         const Choice<T> (&choices)[n]) {
  const std::string given = node.text(attribute, otherwise);
  std::string known;
  for (const auto& c : choices) {
    if (c.name == given) return c.value;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", c.name);
  }
  node.fail("{} is '{}'; supported are {}", attribute, given, known);
}

constexpr Choice<ResizeMode> modes[] = {{"nearest", ResizeMode::nearest}, {"linear", ResizeMode::linear}};
constexpr Choice<ResizeCoordinates> coordinates[] = {{"half_pixel", ResizeCoordinates::half_pixel},
                                                     {"pytorch_half_pixel", ResizeCoordinates::pytorch_half_pixel},
                                                     {"asymmetric", ResizeCoordinates::asymmetric},
                                                     {"align_corners", ResizeCoordinates::align_corners}};
constexpr Choice<NearestRounding> roundings[] = {{"round_prefer_floor", NearestRounding::round_prefer_floor},
                                                 {"round_prefer_ceil", NearestRounding::round_prefer_ceil},
                                                 {"floor", NearestRounding::floor},
                                                 {"ceil", NearestRounding::ceil}};

// Where in `scales` or `sizes` the entry of an axis stands; -1 if it is left out
int entry_of(const NodeReader& node, int axis, std::size_t entries) {
  const auto axes = node.list("axes");
  if (!axes) {
    if (entries != 4) node.fail("scales or sizes have {} entries; expected 4", entries);
    return axis;
  }
  if (axes->size() != entries) node.fail("scales or sizes have {} entries for {} axes", entries, axes->size());
  for (std::size_t i = 0; i < axes->size(); ++i)
    if (node.axis((*axes)[i], 4) == axis) return static_cast<int>(i);
  return -1;
}

void read_scales(const NodeReader& node, operators::Resize& r) {
  const auto& scales = node.needed_constant(2, "scales");
  const auto scale = [&](int axis) {
    const int i = entry_of(node, axis, scales.size());
    return i < 0 ? 1.0 : static_cast<double>(scales[static_cast<std::size_t>(i)]);
  };
  if (scale(0) != 1 || scale(1) != 1)
    node.fail("scales of images and channels are {} and {}; expected 1", scale(0), scale(1));
  r.scale_h = scale(2);
  r.scale_w = scale(3);
}

void read_sizes(const NodeReader& node, const Shape& x, operators::Resize& r) {
  const Integers sizes = node.integers(3);
  const auto size = [&](int axis) {
    const int i = entry_of(node, axis, sizes.elements.size());
    return i < 0 ? x[static_cast<std::size_t>(axis)] : sizes.elements[static_cast<std::size_t>(i)];
  };
  for (const int axis : {0, 1})
    if (!(size(axis) == x[static_cast<std::size_t>(axis)]))
      node.fail("sizes of images and channels are {} and {}; expected those of the input {}", to_string(size(0)),
                to_string(size(1)), to_string(x));
  // an extent that stays as it is may be a symbol
  const auto extent = [&](int axis) -> std::int64_t {
    const Dim d = size(axis);
    if (d.known()) return d.value();
    if (d == x[static_cast<std::size_t>(axis)]) return 0;
    node.fail("the size of axis {} is the symbol {}; expected a number, or scales", axis, d.symbol());
  };
  r.height = extent(2);
  r.width = extent(3);
}

void import_resize(const NodeReader& node) {
  const NetworkValue x = node.value(0);
  if (x.shape().size() != 4)
    node.fail("the input has shape {}; expected 4 extents (images only)", to_string(x.shape()));
  if (node.integer("antialias", 0) != 0) node.fail("antialias is not supported");
  if (const auto p = node.text("keep_aspect_ratio_policy", "stretch"); p != "stretch")
    node.fail("keep_aspect_ratio_policy '{}' is not supported; only stretch is", p);
  operators::Resize r;
  r.mode = choose(node, "mode", "nearest", modes);
  r.coordinates = choose(node, "coordinate_transformation_mode", "half_pixel", coordinates);
  r.rounding = choose(node, "nearest_mode", "round_prefer_floor", roundings);
  const bool scales = node.has(2) && !(node.is_integers(2) && node.integers(2).elements.empty());
  const bool sizes = node.has(3) && !node.integers(3).elements.empty();
  if (scales == sizes) node.fail("expected either scales or sizes");
  if (scales) {
    read_scales(node, r);
  } else {
    read_sizes(node, x.shape(), r);
  }
  node.result(node.apply(r, {x}));
}

constexpr OperatorRow image_table[] = {{"AveragePool", 1, import_average_pool},
                                       {"GlobalAveragePool", 1, import_global_average_pool},
                                       {"MaxPool", 1, import_max_pool},
                                       {"Resize", 11, import_resize}};

}  // namespace

std::span<const OperatorRow> image_rows() { return image_table; }

}  // namespace coda::network::onnx_import
