/// Resize and Upsample.

#include <algorithm>
#include <cmath>

#include "network/onnx/importer.hpp"

namespace unisono::network::onnx_import {

namespace {

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

constexpr Choice<ResizeMode> modes[] = {
    {"nearest", ResizeMode::nearest}, {"linear", ResizeMode::linear}, {"cubic", ResizeMode::cubic}};
constexpr Choice<ResizeCoordinates> coordinates[] = {{"half_pixel", ResizeCoordinates::half_pixel},
                                                     {"pytorch_half_pixel", ResizeCoordinates::pytorch_half_pixel},
                                                     {"asymmetric", ResizeCoordinates::asymmetric},
                                                     {"align_corners", ResizeCoordinates::align_corners},
                                                     {"half_pixel_symmetric", ResizeCoordinates::half_pixel_symmetric},
                                                     {"tf_crop_and_resize", ResizeCoordinates::crop_and_resize}};
constexpr Choice<NearestRounding> roundings[] = {{"round_prefer_floor", NearestRounding::round_prefer_floor},
                                                 {"round_prefer_ceil", NearestRounding::round_prefer_ceil},
                                                 {"floor", NearestRounding::floor},
                                                 {"ceil", NearestRounding::ceil}};

// The axes that scales, sizes and roi are about, in their order
std::vector<std::size_t> resized_axes(const NodeReader& node, std::size_t rank) {
  std::vector<std::size_t> axes;
  if (const auto given = read_axes(node, 1 << 20, rank)) {
    for (const int a : *given) axes.push_back(static_cast<std::size_t>(a));
  } else {
    for (std::size_t i = 0; i < rank; ++i) axes.push_back(i);
  }
  return axes;
}

void read_scales(const NodeReader& node, int input, const std::vector<std::size_t>& axes, operators::Resample& r) {
  const auto& scales = node.needed_constant(input, "scales");
  if (scales.size() != axes.size()) node.fail("scales has {} entries; expected {}", scales.size(), axes.size());
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (!(scales[i] > 0)) node.fail("a scale is {}; expected above 0", scales[i]);
    r.scales[axes[i]] = static_cast<double>(scales[i]);
  }
}

std::int64_t read_size(const NodeReader& node, const Dim& size) {
  if (size.value() < 1 || size.value() > (std::int64_t{1} << 31))
    node.fail("a size is {}; expected 1 to 2^31", size.value());
  return size.value();
}

// Gives the tensor whose extents the sizes are, if they are symbols
std::optional<Shape> read_sizes(const NodeReader& node, const Shape& x, const std::vector<std::size_t>& axes,
                                const std::vector<Dim>& sizes, operators::Resample& r) {
  Shape wanted = x;
  bool symbols = false;
  const bool region = r.coordinates == ResizeCoordinates::crop_and_resize;  // which may become as large as the whole
  for (std::size_t i = 0; i < axes.size(); ++i) {
    wanted[axes[i]] = sizes[i];
    if (sizes[i] == x[axes[i]] && !(region && sizes[i].known())) continue;
    symbols = symbols || !sizes[i].known();
    r.sizes[axes[i]] = sizes[i].known() ? read_size(node, sizes[i]) : -1;
  }
  return symbols ? std::optional(wanted) : std::nullopt;
}

// Keeps the image's proportions: the smallest (not_larger) or largest (not_smaller) of the scales is that of all axes.
// Pixels lie where that scale puts them, and only their number is rounded.
void read_proportional_sizes(const NodeReader& node, const Shape& x, const std::vector<std::size_t>& axes,
                             const std::vector<Dim>& sizes, operators::Resample& r) {
  const std::string policy = node.text("keep_aspect_ratio_policy", "stretch");
  if (policy != "not_larger" && policy != "not_smaller")
    node.fail("keep_aspect_ratio_policy is '{}'; expected stretch, not_larger or not_smaller", policy);
  if (r.coordinates == ResizeCoordinates::crop_and_resize)
    node.fail("keep_aspect_ratio_policy {} is not supported with tf_crop_and_resize", policy);
  std::int64_t size = 0, extent = 0;  // those of the axis that has the scale of all
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const Dim& n = x[axes[i]];
    if (!sizes[i].known()) node.fail("sizes must be numbers with keep_aspect_ratio_policy {}", policy);
    if (!n.known() || n.value() < 1)
      node.fail("keep_aspect_ratio_policy {} needs fixed extents of at least 1; got {}", policy, to_string(x));
    const std::int64_t own = read_size(node, sizes[i]);
    const bool smaller = own * extent<size * n.value(), larger = own * extent> size * n.value();
    if (i == 0 || (policy == "not_larger" ? smaller : larger)) size = own, extent = n.value();
  }
  const double scale = static_cast<double>(size) / static_cast<double>(extent);
  for (const std::size_t axis : axes) {
    const std::int64_t n = x[axis].value();
    r.scales[axis] = scale;
    r.sizes[axis] = static_cast<std::int64_t>(std::floor(scale * static_cast<double>(n) + 0.5));
    if (r.sizes[axis] < 1) node.fail("axis {} would have no element", axis);
    r.rounded_sizes = r.rounded_sizes || r.sizes[axis] * extent != n * size;
  }
}

void read_region(const NodeReader& node, const std::vector<std::size_t>& axes, std::size_t rank,
                 operators::Resample& r) {
  const auto& roi = node.needed_constant(1, "roi");
  if (roi.size() != 2 * axes.size()) node.fail("roi has {} entries; expected {}", roi.size(), 2 * axes.size());
  r.roi_begin.assign(rank, 0);
  r.roi_end.assign(rank, 1);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    r.roi_begin[axes[i]] = static_cast<double>(roi[i]);
    r.roi_end[axes[i]] = static_cast<double>(roi[axes.size() + i]);
  }
}

// What the kernels for images do: nearest and linear over height and width
std::optional<operators::Resize> as_image(const operators::Resample& r, const Shape& x) {
  const auto stays = [&](std::size_t axis) { return r.sizes[axis] == 0 && r.scales[axis] == 1; };
  if (x.size() != 4 || !stays(0) || !stays(1) || r.rounded_sizes || r.mode == ResizeMode::cubic || r.antialias ||
      r.exclude_outside || r.coordinates > ResizeCoordinates::align_corners)
    return std::nullopt;
  // corners are aligned by what the scale makes of the extent, before it is rounded down
  for (const std::size_t axis : {2, 3}) {
    const double made = r.scales[axis] * (x[axis].known() ? static_cast<double>(x[axis].value()) : 1);
    if (r.coordinates == ResizeCoordinates::align_corners && r.sizes[axis] == 0 && made != std::floor(made))
      return std::nullopt;
  }
  return operators::Resize{.mode = r.mode,
                           .scale_h = r.scales[2],
                           .scale_w = r.scales[3],
                           .height = r.sizes[2],
                           .width = r.sizes[3],
                           .coordinates = r.coordinates,
                           .rounding = r.rounding};
}

void finish(const NodeReader& node, NetworkValue x, const operators::Resample& r,
            const std::optional<NetworkValue>& like = {}) {
  const bool f32 = x.dtype() == DType::f32;
  if (!f32 && (is_float(x.dtype()) || r.mode != ResizeMode::nearest || size_of(x.dtype()) > 2))
    node.fail("elements of {} are not supported in this mode", to_string(x.dtype()));
  const NetworkValue in = node.cast(x, DType::f32);  // exact: integers of at most 16 bits
  const auto image = as_image(r, x.shape());
  std::vector<NetworkValue> inputs{in};
  if (like) inputs.push_back(*like);
  const NetworkValue y = image ? node.apply(*image, inputs) : node.apply(r, inputs);
  node.result(node.cast(y, x.dtype()));
}

// A tensor whose extents are those that the sizes name by symbols
NetworkValue tensor_like(const NodeReader& node, const Shape& wanted, const operators::Resample& r) {
  const auto& tensors = node.builder().so_far().tensors;
  for (TensorId id = 0; id < tensors.size(); ++id) {
    bool fits = true;
    for (std::size_t i = 0; i < wanted.size(); ++i)
      fits = fits && (r.sizes[i] != -1 || (i < tensors[id].shape.size() && tensors[id].shape[i] == wanted[i]));
    if (fits) return NetworkValue(node.builder(), id);
  }
  node.fail("no tensor has the extents of the sizes {}; give the model fixed extents, or scales", to_string(wanted));
}

void import_resize(const NodeReader& node) {
  const NetworkValue x = node.value(0);
  const std::size_t rank = x.shape().size();
  if (rank == 0) node.fail("the input is a scalar");
  operators::Resample r;
  r.mode = choose(node, "mode", "nearest", modes);
  r.coordinates = choose(node, "coordinate_transformation_mode", "half_pixel", coordinates);
  r.rounding = choose(node, "nearest_mode", "round_prefer_floor", roundings);
  r.antialias = node.integer("antialias", 0) != 0 && r.mode != ResizeMode::nearest;
  r.exclude_outside = node.integer("exclude_outside", 0) != 0;
  r.cubic_a = node.real("cubic_coeff_a", -0.75);
  r.extrapolation = node.real("extrapolation_value", 0);
  r.scales.assign(rank, 1);
  r.sizes.assign(rank, 0);
  const auto axes = resized_axes(node, rank);
  const bool scales = node.has(2) && !node.is_empty(2), sizes = node.has(3) && !node.is_empty(3);
  if (scales == sizes) node.fail("expected either scales or sizes");
  if (r.coordinates == ResizeCoordinates::crop_and_resize) read_region(node, axes, rank, r);
  if (scales) {
    read_scales(node, 2, axes, r);
    return finish(node, x, r);
  }
  const Integers wanted = node.integers(3);
  if (wanted.elements.size() != axes.size())
    node.fail("sizes has {} entries; expected {}", wanted.elements.size(), axes.size());
  if (node.text("keep_aspect_ratio_policy", "stretch") != "stretch") {
    read_proportional_sizes(node, x.shape(), axes, wanted.elements, r);
  } else if (const auto like = read_sizes(node, x.shape(), axes, wanted.elements, r)) {
    return finish(node, x, r, tensor_like(node, *like, r));
  }
  finish(node, x, r);
}

// Resize before it had modes: pixel i takes floor(i/scale), or between the pixels around i/scale
void import_upsample(const NodeReader& node) {
  if (node.opset() > 9) node.fail("Upsample ends with opset 9; Resize has taken its place");
  const NetworkValue x = node.value(0);
  if (x.shape().empty()) node.fail("the input is a scalar");
  operators::Resample r;
  r.mode = choose(node, "mode", "nearest", modes);
  r.coordinates = ResizeCoordinates::asymmetric;
  r.rounding = NearestRounding::floor;
  r.scales.assign(x.shape().size(), 1);
  r.sizes.assign(x.shape().size(), 0);
  read_scales(node, 1, resized_axes(node, x.shape().size()), r);
  finish(node, x, r);
}

constexpr OperatorRow image_table[] = {{"Resize", 11, import_resize}, {"Upsample", 9, import_upsample}};

}  // namespace

std::span<const OperatorRow> image_rows() { return image_table; }

}  // namespace unisono::network::onnx_import
