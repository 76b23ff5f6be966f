/// GridSample, see tensors.hpp.

#include <algorithm>
#include <cmath>

#include "reference/network/tensors.hpp"

namespace unisono::float64 {
namespace {

/// The coordinate in pixels that a number of the grid names.
double in_pixels(double g, std::int64_t extent, bool align_corners) {
  const auto n = static_cast<double>(extent);
  return align_corners ? (g + 1) * (n - 1) / 2 : (g + 1) * n / 2 - 0.5;
}

/// Mirrors at the two borders, one after the other, until it is between them.
double reflected(double x, double low, double high) {
  if (low == high || !std::isfinite(x)) return low == high ? low : x;
  x = std::remainder(x - low, 2 * (high - low));  // a mirror image has a period of twice the distance
  return low + std::abs(x);
}

/// A coordinate as the padding has it; of zeros as it is.
double padded(double x, std::int64_t extent, const operators::GridSample& o) {
  if (o.padding == GridPadding::zeros) return x;
  const auto last = static_cast<double>(extent - 1);
  if (o.padding == GridPadding::reflection)
    x = o.align_corners ? reflected(x, 0, last) : reflected(x, -0.5, last + 0.5);
  return std::isnan(x) ? last : std::min(std::max(x, 0.0), last);
}

/// Weight of the pixel at a distance from the coordinate (Keys, a = −3/4).
double cubic_weight(double distance) {
  const double d = std::abs(distance), a = -0.75;
  if (d >= 2) return 0;
  if (d > 1) return a * (d * d * d - 5 * d * d + 8 * d - 4);
  return (a + 2) * d * d * d - (a + 3) * d * d + 1;
}

/// The weight of every pixel of an axis.
std::vector<double> axis_weights(const operators::GridSample& o, double g, std::int64_t extent) {
  std::vector<double> weights(static_cast<std::size_t>(extent), 0.0);
  const auto add = [&](double pixel, double weight) {
    if (pixel >= 0 && pixel < static_cast<double>(extent)) weights[static_cast<std::size_t>(pixel)] += weight;
  };
  double x = in_pixels(g, extent, o.align_corners);
  if (o.mode == GridMode::cubic && std::isfinite(x)) {
    for (int tap = -1; tap <= 2; ++tap)
      add(std::floor(padded(std::floor(x) + tap, extent, o)), cubic_weight(x - std::floor(x) - tap));
    return weights;
  }
  x = padded(x, extent, o);
  if (!std::isfinite(x)) return weights;
  if (o.mode == GridMode::nearest) {
    add(std::nearbyint(x), 1);
  } else {
    add(std::floor(x), 1 - (x - std::floor(x)));
    add(std::floor(x) + 1, x - std::floor(x));
  }
  return weights;
}

}  // namespace

Tensor64 evaluate_tensors(const operators::GridSample& o, const ReferenceInputs& in) {
  const Tensor64 &x = *in[0], &grid = *in[1];
  const std::size_t axes = x.shape.size() - 2;
  const Extents64 image(x.shape.begin() + 2, x.shape.end());
  Extents64 shape{x.shape[0], x.shape[1]};
  shape.insert(shape.end(), grid.shape.begin() + 1, grid.shape.end() - 1);
  Tensor64 y = empty_tensor(shape);
  std::size_t to = 0;
  for_indices(shape, [&](const Extents64& index) {
    std::vector<std::vector<double>> weights;
    for (std::size_t d = 0; d < axes; ++d) {
      Extents64 at{index[0]};
      at.insert(at.end(), index.begin() + 2, index.end());
      at.push_back(static_cast<std::int64_t>(axes - 1 - d));
      weights.push_back(axis_weights(o, grid.value[place(grid.shape, at)], image[d]));
    }
    double sum = 0, sizes = 0;
    for_indices(image, [&](const Extents64& pixel) {
      double weight = 1;
      for (std::size_t d = 0; d < axes; ++d) weight *= weights[d][static_cast<std::size_t>(pixel[d])];
      if (weight == 0) return;
      Extents64 at{index[0], index[1]};
      at.insert(at.end(), pixel.begin(), pixel.end());
      const double term = weight * x.value[place(x.shape, at)];
      sum += term, sizes += std::abs(term);
    });
    y.value[to] = sum;
    y.bound[to++] = f32_roundoff * (4 * sizes + std::abs(sum));
  });
  return y;
}

}  // namespace unisono::float64
