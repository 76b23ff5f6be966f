#include "network/resize_tables.hpp"

#include <algorithm>
#include <cmath>

namespace coda::network {

namespace {

double coordinate(ResizeCoordinates mode, std::int64_t i, std::int64_t in, std::int64_t out, double scale) {
  const auto x = static_cast<double>(i);
  switch (mode) {
    case ResizeCoordinates::half_pixel: return (x + 0.5) / scale - 0.5;
    case ResizeCoordinates::pytorch_half_pixel: return out > 1 ? (x + 0.5) / scale - 0.5 : 0;
    case ResizeCoordinates::asymmetric: return x / scale;
    case ResizeCoordinates::align_corners:
      return out > 1 ? x * static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0;
  }
  return x;
}

double round_nearest(NearestRounding mode, double x) {
  switch (mode) {
    case NearestRounding::round_prefer_floor: return std::ceil(x - 0.5);
    case NearestRounding::round_prefer_ceil: return std::floor(x + 0.5);
    case NearestRounding::floor: return std::floor(x);
    case NearestRounding::ceil: return std::ceil(x);
  }
  return x;
}

}  // namespace

cpu::AxisTable axis_table(const operators::Resize& r, std::int64_t in, std::int64_t out, double scale) {
  if (scale == 0) scale = static_cast<double>(out) / static_cast<double>(in);
  const auto inside = [&](double x) {
    return static_cast<std::int64_t>(std::clamp(x, 0.0, static_cast<double>(in - 1)));
  };
  cpu::AxisTable table;
  for (std::int64_t i = 0; i < out; ++i) {
    const double x = coordinate(r.coordinates, i, in, out, scale);
    if (r.mode == ResizeMode::nearest) {
      table.low.push_back(inside(round_nearest(r.rounding, x)));
    } else {
      const double low = std::floor(x);
      table.low.push_back(inside(low));
      table.high.push_back(inside(low + 1));
      table.weight.push_back(static_cast<float>(x - low));
    }
  }
  return table;
}

}  // namespace coda::network
