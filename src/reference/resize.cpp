#include "reference/resize.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reference/image.hpp"
#include "reference/term.hpp"
#include "unisono/error.hpp"

namespace unisono::reference {

namespace {

// What one output position takes from one dimension of the input
struct Taps {
  int count = 0;
  std::array<std::int64_t, 4> at{};
  std::array<double, 4> weight{};
  bool outside = false;     // tf_crop_and_resize: extrapolated
  double weight_error = 0;  // by coordinates and weights in f32, per weight

  void add(std::int64_t position, double w, std::int64_t extent) {
    at[count] = std::clamp<std::int64_t>(position, 0, extent - 1);
    weight[count++] = w;
  }
};

class Axis {
 public:
  Axis(const Resize& r, int d, std::int64_t input)
      : resize_(r),
        dimension_(d),
        input_(static_cast<double>(input)),
        output_(static_cast<double>(r.size[d])),
        scale_(r.scale[d] == 0 ? output_ / input_ : r.scale[d]) {}

  Taps taps(std::int64_t i) const;

 private:
  double coordinate(double i) const;
  std::int64_t nearest(double x) const;
  void add_cubic(Taps& taps, double x) const;

  const Resize& resize_;
  int dimension_;
  double input_, output_, scale_;
};

double Axis::coordinate(double i) const {
  const double half = (i + 0.5) / scale_ - 0.5;
  switch (resize_.coordinates) {
    case CoordinateMode::half_pixel: return half;
    case CoordinateMode::half_pixel_symmetric: {
      const double adjustment = output_ / (scale_ * input_);
      return input_ / 2 * (1 - adjustment) + half;
    }
    case CoordinateMode::pytorch_half_pixel: return output_ > 1 ? half : 0;
    case CoordinateMode::align_corners: return output_ > 1 ? i * (input_ - 1) / (output_ - 1) : 0;
    case CoordinateMode::asymmetric: return i / scale_;
    case CoordinateMode::tf_crop_and_resize: {
      const double start = resize_.roi[dimension_], end = resize_.roi[dimension_ + 2];
      if (output_ <= 1) return 0.5 * (start + end) * (input_ - 1);
      return start * (input_ - 1) + i * (end - start) * (input_ - 1) / (output_ - 1);
    }
  }
  return 0;
}

std::int64_t Axis::nearest(double x) const {
  switch (resize_.nearest) {
    case NearestMode::round_prefer_floor: return static_cast<std::int64_t>(std::ceil(x - 0.5));
    case NearestMode::round_prefer_ceil: return static_cast<std::int64_t>(std::floor(x + 0.5));
    case NearestMode::floor: return static_cast<std::int64_t>(std::floor(x));
    case NearestMode::ceil: return static_cast<std::int64_t>(std::ceil(x));
  }
  return 0;
}

// Keys, "Cubic convolution interpolation for digital image processing", 1981, eq. 15, for a distance t
double cubic_weight(double t, double a) {
  t = std::abs(t);
  if (t <= 1) return ((a + 2) * t - (a + 3)) * t * t + 1;
  if (t < 2) return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a;
  return 0;
}

void Axis::add_cubic(Taps& taps, double x) const {
  const double left = std::floor(x);
  const auto extent = static_cast<std::int64_t>(input_);
  double total = 0;
  for (int k = -1; k <= 2; ++k) {
    const double position = left + k;
    const bool inside = position >= 0 && position < input_;
    const double w = resize_.exclude_outside && !inside ? 0 : cubic_weight(x - position, resize_.cubic_a);
    taps.add(static_cast<std::int64_t>(position), w, extent);
    total += w;
  }
  if (resize_.exclude_outside)
    for (int k = 0; k < taps.count; ++k) taps.weight[k] /= total;
}

Taps Axis::taps(std::int64_t i) const {
  Taps t;
  const double x = coordinate(static_cast<double>(i));
  const auto extent = static_cast<std::int64_t>(input_);
  t.outside = resize_.coordinates == CoordinateMode::tf_crop_and_resize && (x < 0 || x > input_ - 1);
  // slope of the weights at most 2; coordinates of that size in f32
  t.weight_error = resize_.mode == Resize::Mode::nearest ? 0 : 8 * 0x1p-24 * (1 + std::abs(x));
  switch (resize_.mode) {
    case Resize::Mode::nearest: t.add(nearest(x), 1, extent); break;
    case Resize::Mode::linear: {
      const double left = std::floor(x);
      t.add(static_cast<std::int64_t>(left), 1 - (x - left), extent);
      t.add(static_cast<std::int64_t>(left) + 1, x - left, extent);
      break;
    }
    case Resize::Mode::cubic: add_cubic(t, x); break;
  }
  return t;
}

// Σ w_y·w_x·pixel over the taps of both dimensions
V interpolate(const Image& image, std::int64_t b, std::int64_t c, const Taps& y, const Taps& x, const Arithmetic& a) {
  double v = 0, magnitude = 0, slack = 0;
  for (int i = 0; i < y.count; ++i)
    for (int j = 0; j < x.count; ++j) {
      if (y.weight[i] == 0 || x.weight[j] == 0) {  // a weight of 0 keeps a NaN or infinity out, but may be rounded
        const double p = std::abs(image.pixel(b, y.at[i], x.at[j])[c]);
        slack += p * (y.weight_error + x.weight_error);
        continue;
      }
      const double p = image.pixel(b, y.at[i], x.at[j])[c];
      v += y.weight[i] * x.weight[j] * p;
      magnitude += std::abs(y.weight[i] * x.weight[j] * p);
      slack += std::abs(p) * (y.weight_error + x.weight_error);
    }
  if (y.count * x.count == 1) return {v, 0};  // a copy
  return a.with_error(v, 0, a.chain(y.count * x.count + 4) * magnitude + 2 * slack);
}

void check(const Resize& r) {
  for (int d = 0; d < 2; ++d) {
    if (r.size[d] < 1 || r.size[d] > (std::int64_t{1} << 31))
      throw UserError(
          fmt::format("resize was given an output of {}x{} pixels; expected 1 to 2^31", r.size[0], r.size[1]));
    if (!(r.scale[d] >= 0) || !std::isfinite(r.scale[d]))
      throw UserError(
          fmt::format("resize was given scale {}; expected a positive number, or 0 for output over input", r.scale[d]));
  }
}

}  // namespace

Values resize(const Resize& r, const ConstTensorView& x, const ErrorModel& model) {
  check(r);
  const Image image = read_image(x, r.layout, "resize");
  const Axis rows(r, 0, image.h), cols(r, 1, image.w);
  std::vector<Taps> x_taps;
  for (std::int64_t j = 0; j < r.size[1]; ++j) x_taps.push_back(cols.taps(j));
  const Arithmetic a(DType::f32, model);
  Values out{axes::mn, {}, {}};
  out.value.reserve(static_cast<std::size_t>(image.n * r.size[0] * r.size[1] * image.c));
  out.bound.reserve(out.value.capacity());
  for (std::int64_t b = 0; b < image.n; ++b)
    for (std::int64_t i = 0; i < r.size[0]; ++i) {
      const Taps y_taps = rows.taps(i);
      for (const Taps& t : x_taps)
        for (std::int64_t c = 0; c < image.c; ++c) {
          const bool outside = y_taps.outside || t.outside;
          const V v = outside ? V{r.extrapolation_value, 0} : interpolate(image, b, c, y_taps, t, a);
          out.value.push_back(v.v);
          out.bound.push_back(v.e);
        }
    }
  return out;
}

}  // namespace unisono::reference
