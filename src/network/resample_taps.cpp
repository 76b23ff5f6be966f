#include "network/resample_taps.hpp"

#include <algorithm>
#include <cmath>

#include "unisono/error.hpp"

namespace unisono::network {

namespace {

// Whether the scale is the ratio of the extents
bool by_extents(const operators::Resample& r, std::size_t axis) { return r.sizes[axis] != 0 && !r.rounded_sizes; }

double scale_of(const operators::Resample& r, std::size_t axis, std::int64_t in, std::int64_t out) {
  return by_extents(r, axis) ? static_cast<double>(out) / static_cast<double>(in) : r.scales[axis];
}

double coordinate(const operators::Resample& r, std::size_t axis, std::int64_t i, std::int64_t in, std::int64_t out) {
  const auto x = static_cast<double>(i), n = static_cast<double>(in), m = static_cast<double>(out);
  const double scale = scale_of(r, axis, in, out);
  if (r.coordinates != ResizeCoordinates::crop_and_resize)
    return input_coordinate(r.coordinates, {in, out, scale}, by_extents(r, axis) ? m : n * scale, i);
  const double begin = r.roi_begin[axis], end = r.roi_end[axis];
  return out > 1 ? begin * (n - 1) + x * (end - begin) * (n - 1) / (m - 1) : 0.5 * (begin + end) * (n - 1);
}

// Weight of an element at this distance
double kernel(const operators::Resample& r, double d) {
  d = std::abs(d);
  if (r.mode == ResizeMode::linear) return std::max(0.0, 1 - d);
  const double a = r.cubic_a;
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  if (d < 2) return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
  return 0;
}

}  // namespace

double input_coordinate(ResizeCoordinates mode, const AxisScale& axis, double made, std::int64_t i) {
  const auto x = static_cast<double>(i), n = static_cast<double>(axis.in), centre = (x + 0.5) / axis.scale;
  switch (mode) {
    case ResizeCoordinates::half_pixel: return centre - 0.5;
    case ResizeCoordinates::pytorch_half_pixel: return axis.out > 1 ? centre - 0.5 : 0;
    case ResizeCoordinates::asymmetric: return x / axis.scale;
    case ResizeCoordinates::align_corners: return axis.out > 1 ? x * (n - 1) / (made - 1) : 0;
    case ResizeCoordinates::half_pixel_symmetric:
      return n / 2 * (1 - static_cast<double>(axis.out) / (axis.scale * n)) + centre - 0.5;
    case ResizeCoordinates::crop_and_resize: break;
  }
  throw InternalError("coordinates that need a region");
}

double nearest_place(NearestRounding mode, double x) {
  switch (mode) {
    case NearestRounding::round_prefer_floor: return std::ceil(x - 0.5);
    case NearestRounding::round_prefer_ceil: return std::floor(x + 0.5);
    case NearestRounding::floor: return std::floor(x);
    case NearestRounding::ceil: return std::ceil(x);
  }
  return x;
}

bool leaves_axis(const operators::Resample& r, std::size_t axis, std::int64_t in, std::int64_t out) {
  if (in != out || r.coordinates == ResizeCoordinates::crop_and_resize) return false;
  return by_extents(r, axis) || r.scales[axis] == 1;
}

cpu::AxisTaps axis_taps(const operators::Resample& r, std::size_t axis, std::int64_t in, std::int64_t out) {
  cpu::AxisTaps t;
  const double scale = scale_of(r, axis, in, out);
  // antialias: the kernel is as wide as an output element where the input is made smaller
  const double stretch = r.antialias && scale < 1 ? scale : 1;
  const double reach = (r.mode == ResizeMode::cubic ? 2 : 1) / stretch;
  for (std::int64_t i = 0; i < out; ++i) {
    const double x = coordinate(r, axis, i, in, out);
    const auto edge = static_cast<double>(in - 1);
    if (r.mode == ResizeMode::nearest) {
      t.places.push_back(static_cast<std::int64_t>(std::clamp(nearest_place(r.rounding, x), 0.0, edge)));
      t.weights.push_back(1);
    } else {
      const std::size_t begin = t.weights.size();
      double sum = 0;
      for (double at = std::floor(x - reach) + 1; at < x + reach; ++at) {
        const bool outside = at < 0 || at > edge;
        const double w = r.exclude_outside && outside ? 0 : kernel(r, (at - x) * stretch);
        if (w == 0) continue;
        sum += w;
        t.places.push_back(static_cast<std::int64_t>(std::clamp(at, 0.0, edge)));
        t.weights.push_back(w);
      }
      if (r.exclude_outside || stretch != 1)
        for (std::size_t k = begin; k < t.weights.size(); ++k) t.weights[k] /= sum;
    }
    t.first.push_back(std::ssize(t.weights));
  }
  return t;
}

std::vector<std::vector<bool>> outside_positions(const operators::Resample& r, const std::vector<std::int64_t>& in,
                                                 const std::vector<std::int64_t>& out) {
  std::vector<std::vector<bool>> result(in.size());
  if (r.coordinates != ResizeCoordinates::crop_and_resize) return result;
  for (std::size_t axis = 0; axis < in.size(); ++axis)
    for (std::int64_t i = 0; i < out[axis]; ++i) {
      const double x = coordinate(r, axis, i, in[axis], out[axis]);
      result[axis].push_back(x < 0 || x > static_cast<double>(in[axis] - 1));
    }
  return result;
}

void fill_outside(const std::vector<std::vector<bool>>& outside, float value, const cpu::Strided& to) {
  for (std::size_t axis = 0; axis < outside.size(); ++axis)
    for (std::size_t i = 0; i < outside[axis].size(); ++i) {
      if (!outside[axis][i]) continue;
      cpu::Extents64 shape = to.shape;
      shape[axis] = 1;
      cpu::Odometer at(shape, to.strides);
      auto* data = static_cast<float*>(to.data) + static_cast<std::int64_t>(i) * to.strides[axis];
      for (std::int64_t n = cpu::count_of(shape); n > 0; --n, at.next()) data[at.offset()] = value;
    }
}

}  // namespace unisono::network
