/// Resample, see tensors.hpp: ONNX's Resize, axis by axis, with a weight for every element of the input.

#include <algorithm>
#include <cmath>

#include "reference/network/tensors.hpp"
#include "unisono/error.hpp"

namespace unisono::float64 {
namespace {

/// One axis that becomes `out` elements long.
struct ResampledAxis {
  const operators::Resample& how;
  std::size_t number;
  std::int64_t in, out;

  /// Whether only the two extents say how the axis is stretched.
  bool stretched() const { return how.sizes[number] != 0 && !how.rounded_sizes; }
  double scale() const { return stretched() ? static_cast<double>(out) / static_cast<double>(in) : how.scales[number]; }
  /// Where output element i lies in the input.
  double coordinate(std::int64_t i) const;
  /// Whether its place is outside of a region of interest's tensor.
  bool outside(std::int64_t i) const {
    const double x = coordinate(i);
    return how.coordinates == ResizeCoordinates::crop_and_resize && (x < 0 || x > static_cast<double>(in) - 1);
  }
  std::vector<double> weights(std::int64_t i) const;
};

double ResampledAxis::coordinate(std::int64_t i) const {
  const double at = static_cast<double>(i), n = static_cast<double>(in), m = static_cast<double>(out), s = scale();
  switch (how.coordinates) {
    case ResizeCoordinates::half_pixel: return (at + 0.5) / s - 0.5;
    case ResizeCoordinates::pytorch_half_pixel: return m > 1 ? (at + 0.5) / s - 0.5 : 0;
    case ResizeCoordinates::asymmetric: return at / s;
    case ResizeCoordinates::align_corners: return m > 1 ? at * (n - 1) / ((stretched() ? m : n * s) - 1) : 0;
    case ResizeCoordinates::half_pixel_symmetric: {
      const double adjustment = m / (s * n);  // 1 but for an extent that was rounded down
      return n / 2 * (1 - adjustment) + (at + 0.5) / s - 0.5;
    }
    case ResizeCoordinates::crop_and_resize: {
      const double begin = how.roi_begin[number], end = how.roi_end[number];
      return m > 1 ? begin * (n - 1) + at * (end - begin) * (n - 1) / (m - 1) : (begin + end) * (n - 1) / 2;
    }
  }
  throw InternalError("unknown coordinates");
}

double rounded(double x, NearestRounding rounding) {
  const bool half = x - std::floor(x) == 0.5;
  switch (rounding) {
    case NearestRounding::floor: return std::floor(x);
    case NearestRounding::ceil: return std::ceil(x);
    case NearestRounding::round_prefer_floor: return half ? std::floor(x) : std::round(x);
    case NearestRounding::round_prefer_ceil: return half ? std::ceil(x) : std::round(x);
  }
  throw InternalError("unknown rounding");
}

/// A triangle, or Keys' cubic with parameter a.
double filter(const operators::Resample& o, double distance) {
  const double d = std::abs(distance), a = o.cubic_a;
  if (o.mode == ResizeMode::linear) return d < 1 ? 1 - d : 0;
  if (d >= 2) return 0;
  return d > 1 ? a * (d * d * d - 5 * d * d + 8 * d - 4) : (a + 2) * d * d * d - (a + 3) * d * d + 1;
}

std::vector<double> ResampledAxis::weights(std::int64_t i) const {
  std::vector<double> w(static_cast<std::size_t>(in), 0.0);
  const double x = coordinate(i);
  const auto clamped = [&](double place) {
    return static_cast<std::size_t>(std::clamp(place, 0.0, static_cast<double>(in - 1)));
  };
  if (how.mode == ResizeMode::nearest) {
    w[clamped(rounded(x, how.rounding))] = 1;
    return w;
  }
  const double narrow = how.antialias ? std::min(scale(), 1.0) : 1;  // a filter as wide as an element of the result
  const auto reach = static_cast<std::int64_t>(std::ceil((how.mode == ResizeMode::cubic ? 2 : 1) / narrow)) + 1;
  double sum = 0;
  for (std::int64_t tap = -reach; tap <= reach; ++tap) {
    const double place = std::floor(x) + static_cast<double>(tap);
    if (how.exclude_outside && (place < 0 || place >= static_cast<double>(in))) continue;
    const double weight = filter(how, (place - x) * narrow);
    w[clamped(place)] += weight;
    sum += weight;
  }
  for (double& weight : w) weight /= sum;  // which is 1 where nothing is stretched or left out
  return w;
}

/// Sums along an axis; of the values and, with the weights' sizes, of the sizes.
Tensor64 along(const ResampledAxis& axis, const Tensor64& x) {
  Extents64 shape = x.shape;
  shape[axis.number] = axis.out;
  Tensor64 y = empty_tensor(shape);
  std::vector<std::vector<double>> weights;
  for (std::int64_t i = 0; i < axis.out; ++i) weights.push_back(axis.weights(i));
  std::size_t to = 0;
  for_indices(shape, [&](const Extents64& index) {
    const std::vector<double>& w = weights[static_cast<std::size_t>(index[axis.number])];
    Extents64 at = index;
    for (std::int64_t i = 0; i < axis.in; ++i) {
      const double weight = w[static_cast<std::size_t>(i)];
      if (weight == 0) continue;
      at[axis.number] = i;
      const std::size_t from = place(x.shape, at);
      y.value[to] += weight * x.value[from];
      y.bound[to] += std::abs(weight) * x.bound[from];
    }
    ++to;
  });
  return y;
}

}  // namespace

Tensor64 evaluate_tensors(const operators::Resample& o, const ReferenceInputs& in) {
  const Extents64 shape = inferred_shape(o, in);
  Tensor64 y = reshaped(*in[0], in[0]->shape);
  for (std::size_t i = 0; i < y.value.size(); ++i) y.bound[i] = std::abs(y.value[i]);  // sizes, for now
  std::vector<ResampledAxis> axes;
  for (std::size_t d = 0; d < shape.size(); ++d) axes.push_back({o, d, in[0]->shape[d], shape[d]});
  for (const ResampledAxis& axis : axes) {
    const bool stays = axis.in == axis.out && axis.scale() == 1 && o.coordinates != ResizeCoordinates::crop_and_resize;
    if (!stays) y = along(axis, y);
  }
  std::size_t at = 0;
  for_indices(shape, [&](const Extents64& index) {
    for (const ResampledAxis& axis : axes)
      if (axis.outside(index[axis.number])) y.value[at] = o.extrapolation;
    y.bound[at] *= o.mode == ResizeMode::nearest ? 0 : 4 * f32_roundoff;
    ++at;
  });
  return y;
}

}  // namespace unisono::float64
