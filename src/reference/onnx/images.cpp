/// Resampling as ONNX defines it.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "reference/onnx/definitions.hpp"

namespace unisono::float64 {
namespace {

// What an axis becomes
struct ResizedAxis {
  std::int64_t from = 1, to = 1;
  double scale = 1, roi_begin = 0, roi_end = 1;
};

struct ResizeRule {
  std::string mode, coordinates, nearest;
  double cubic = -0.75, extrapolation = 0;
  bool exclude_outside = false, antialias = false;
};

double original_place(const ResizeRule& r, const ResizedAxis& a, double i) {
  const double n = static_cast<double>(a.from), made = a.scale * n;
  const std::string& c = r.coordinates;
  if (c == "align_corners") return made == 1 ? 0 : i * (n - 1) / (made - 1);
  if (c == "asymmetric") return i / a.scale;
  if (c == "pytorch_half_pixel") return a.to > 1 ? (i + 0.5) / a.scale - 0.5 : 0;
  if (c == "tf_crop_and_resize") {
    const double span = (a.roi_end - a.roi_begin) * (n - 1);
    return a.roi_begin * (n - 1) + (a.to == 1 ? span / 2 : i * span / static_cast<double>(a.to - 1));
  }
  const double centred = c == "half_pixel_symmetric" ? n / 2 * (1 - static_cast<double>(a.to) / made) : 0;
  return centred + (i + 0.5) / a.scale - 0.5;
}

double cubic_weight(double x, double a) {
  x = std::abs(x);
  if (x <= 1) return (a + 2) * x * x * x - (a + 3) * x * x + 1;
  return x < 2 ? a * x * x * x - 5 * a * x * x + 8 * a * x - 4 * a : 0;
}

bool upper_neighbour(const std::string& rounding, double ratio) {
  if (rounding == "round_prefer_floor") return ratio > 0.5;
  if (rounding == "round_prefer_ceil") return ratio >= 0.5;
  return rounding == "ceil";
}

struct Taps {
  std::vector<std::int64_t> at;
  std::vector<double> weight;
  bool outside = false;  // beyond the region: extrapolation_value
};

Taps taps_of(const ResizeRule& r, const ResizedAxis& a, std::int64_t i) {
  const double x = original_place(r, a, static_cast<double>(i));
  Taps taps;
  taps.outside = r.coordinates == "tf_crop_and_resize" && (x < 0 || x > static_cast<double>(a.from - 1));
  const double base = std::floor(x), ratio = x - base;
  const auto first = static_cast<std::int64_t>(base);
  if (r.mode == "nearest") {
    taps.at = {first + (ratio > 0 && upper_neighbour(r.nearest, ratio) ? 1 : 0)};
    taps.weight = {1};
  } else {
    const double narrow = r.antialias ? std::min(a.scale, 1.0) : 1, reach = r.mode == "cubic" ? 2 : 1;
    const auto begin = static_cast<std::int64_t>(std::floor(-reach / narrow)) + 1;
    for (std::int64_t k = begin; k <= 1 - begin; ++k) {
      const double distance = narrow * (static_cast<double>(k) - ratio);
      taps.at.push_back(first + k);
      taps.weight.push_back(r.mode == "cubic" ? cubic_weight(distance, r.cubic)
                                              : std::max(0.0, 1 - std::abs(distance)));
      if (r.exclude_outside && (first + k < 0 || first + k >= a.from)) taps.weight.back() = 0;
    }
    const double sum = std::accumulate(taps.weight.begin(), taps.weight.end(), 0.0);
    if (r.antialias || r.exclude_outside)
      for (double& w : taps.weight) w /= sum;
  }
  for (std::int64_t& at : taps.at) at = std::clamp<std::int64_t>(at, 0, a.from - 1);
  return taps;
}

// One axis after the other. Where a coordinate falls upon the border of two pixels, nearest may take either: exact.
Tensor64 resampled_axis(const Tensor64& x, std::size_t axis, const ResizeRule& r, const ResizedAxis& a) {
  std::vector<Taps> taps;
  for (std::int64_t i = 0; i < a.to; ++i) taps.push_back(taps_of(r, a, i));
  Extents64 shape = x.shape;
  shape[axis] = a.to;
  Tensor64 y = empty_tensor(shape);
  y.dtype = x.dtype;
  const double u = r.mode == "nearest" ? 0 : roundoff(x.dtype);
  std::size_t to = 0;
  for_indices(shape, [&](Extents64 at) {
    const Taps& t = taps[static_cast<std::size_t>(at[axis])];
    double sum = 0, sizes = 0, inherited = 0;
    for (std::size_t k = 0; k < t.at.size(); ++k) {
      at[axis] = t.at[k];
      const std::size_t from = place(x.shape, at);
      if (t.weight[k] == 0) continue;
      sum += t.weight[k] * x.value[from], sizes += std::abs(t.weight[k] * x.value[from]);
      inherited += std::abs(t.weight[k]) * x.bound[from];
    }
    y.value[to] = t.outside ? r.extrapolation : sum;
    // f32 has the weights from coordinates that are as large as the axis
    const double weights = 4 + 2 * static_cast<double>(std::max(a.from, a.to));
    y.bound[to++] = t.outside ? 0 : inherited + u * weights * sizes;
  });
  return y;
}

std::vector<ResizedAxis> resized_axes(const Call& call, const std::vector<std::size_t>& axes) {
  const Tensor64& x = call.in(0);
  std::vector<ResizedAxis> all(axes.size());
  const bool sizes = call.has(3) && !call.in(3).value.empty();
  const std::vector<std::int64_t> wanted = sizes ? call.numbers(3) : std::vector<std::int64_t>();
  for (std::size_t i = 0; i < axes.size(); ++i) {
    ResizedAxis& a = all[i];
    a.from = x.shape[axes[i]];
    a.scale = sizes ? static_cast<double>(wanted.at(i)) / static_cast<double>(a.from) : call.in(2).value.at(i);
    a.to = sizes ? wanted[i] : static_cast<std::int64_t>(std::floor(a.scale * static_cast<double>(a.from)));
    if (call.text("coordinate_transformation_mode", "") != "tf_crop_and_resize") continue;
    a.roi_begin = call.in(1).value.at(i), a.roi_end = call.in(1).value.at(axes.size() + i);
    // of a region, scales say how large it becomes
    if (!sizes)
      a.to = static_cast<std::int64_t>(std::floor(static_cast<double>(a.from) * (a.roi_end - a.roi_begin) * a.scale));
  }
  const std::string policy = call.text("keep_aspect_ratio_policy", "stretch");
  if (!sizes || policy == "stretch") return all;
  double scale = all.at(0).scale;
  for (const ResizedAxis& a : all) scale = policy == "not_larger" ? std::min(scale, a.scale) : std::max(scale, a.scale);
  for (ResizedAxis& a : all) {
    a.scale = scale;
    a.to = static_cast<std::int64_t>(std::floor(scale * static_cast<double>(a.from) + 0.5));
  }
  return all;
}

void resize_by(Call& call, const ResizeRule& r, const std::vector<std::size_t>& axes,
               const std::vector<ResizedAxis>& resized) {
  Tensor64 y = in_shape(call.in(0), call.in(0).shape);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const bool crops = r.coordinates == "tf_crop_and_resize";
    if (resized[i].scale == 1 && resized[i].to == resized[i].from && !crops) continue;
    y = resampled_axis(y, axes[i], r, resized[i]);
  }
  call.result(std::move(y));
}

void define_resize(Call& call) {
  ResizeRule r{call.text("mode", "nearest"), call.text("coordinate_transformation_mode", "half_pixel"),
               call.text("nearest_mode", "round_prefer_floor"), call.real("cubic_coeff_a", -0.75),
               call.real("extrapolation_value", 0)};
  r.exclude_outside = call.integer("exclude_outside", 0) != 0;
  r.antialias = call.integer("antialias", 0) != 0;
  const std::size_t rank = call.in(0).shape.size();
  std::vector<std::size_t> axes(rank);
  std::iota(axes.begin(), axes.end(), std::size_t{0});
  if (const auto given = call.list("axes")) {
    axes.clear();
    for (const std::int64_t a : *given) axes.push_back(call.axis(a, rank));
  }
  resize_by(call, r, axes, resized_axes(call, axes));
}

// Resize before it had modes: pixel i takes floor(i/scale), or lies between the pixels around i/scale
void define_upsample(Call& call) {
  const Tensor64& x = call.in(0);
  std::vector<std::size_t> axes(x.shape.size());
  std::iota(axes.begin(), axes.end(), std::size_t{0});
  std::vector<ResizedAxis> resized(axes.size());
  for (std::size_t i = 0; i < axes.size(); ++i) {
    resized[i].from = x.shape[i], resized[i].scale = call.in(1).value.at(i);
    resized[i].to = static_cast<std::int64_t>(std::floor(resized[i].scale * static_cast<double>(x.shape[i])));
  }
  resize_by(call, {call.text("mode", "nearest"), "asymmetric", "floor"}, axes, resized);
}

// Borders as PyTorch's grid_sample, see docs/networks.md
void define_grid_sample(Call& call) {
  const std::string mode = call.text("mode", "linear"), padding = call.text("padding_mode", "zeros");
  operators::GridSample g;
  g.mode = mode == "nearest"                      ? GridMode::nearest
           : mode == "cubic" || mode == "bicubic" ? GridMode::cubic
                                                  : GridMode::linear;
  g.padding = padding == "border"       ? GridPadding::border
              : padding == "reflection" ? GridPadding::reflection
                                        : GridPadding::zeros;
  g.align_corners = call.integer("align_corners", 0) != 0;
  call.result(evaluated(g, {&call.in(0), &call.in(1)}, call.in(0).dtype));
}

// theta·(x, y[, z], 1) of each pixel, from −1 to 1: the centres of the outermost pixels, or their outer borders
void define_affine_grid(Call& call) {
  const Tensor64& theta = call.in(0);
  const Extents64 size = call.numbers(1), image(size.begin() + 2, size.end());
  const std::size_t axes = image.size();
  const bool corners = call.integer("align_corners", 0) != 0;
  Extents64 shape{size[0]};
  shape.insert(shape.end(), image.begin(), image.end());
  shape.push_back(static_cast<std::int64_t>(axes));
  Tensor64 y = empty_tensor(shape);
  y.dtype = theta.dtype;
  std::size_t to = 0;
  for_indices(shape, [&](const Extents64& at) {
    double sum = 0, sizes = 0;
    for (std::size_t k = 0; k <= axes; ++k) {
      double coordinate = 1;
      if (k < axes) {  // x runs along the last axis
        const auto i = static_cast<double>(at[axes - k]), n = static_cast<double>(image[axes - 1 - k]);
        coordinate = corners ? 2 * i / (n - 1) - 1 : (2 * i + 1) / n - 1;
      }
      const double term =
          coordinate * theta.value[place(theta.shape, {at[0], at.back(), static_cast<std::int64_t>(k)})];
      sum += term, sizes += std::abs(term);
    }
    y.value[to] = sum;
    y.bound[to++] = 4 * roundoff(y.dtype) * sizes;
  });
  call.result(std::move(y));
}

constexpr OnnxDefinition image_table[] = {{"AffineGrid", define_affine_grid},
                                          {"GridSample", define_grid_sample},
                                          {"Resize", define_resize},
                                          {"Upsample", define_upsample}};

}  // namespace

std::span<const OnnxDefinition> image_definitions() { return image_table; }

}  // namespace unisono::float64
