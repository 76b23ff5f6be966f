#include "network/resize_tables.hpp"

#include <algorithm>
#include <cmath>

#include "network/resample_taps.hpp"

namespace unisono::network {

cpu::AxisTable axis_table(const operators::Resize& r, std::int64_t in, std::int64_t out, double scale) {
  const AxisScale of{
      .in = in, .out = out, .scale = scale == 0 ? static_cast<double>(out) / static_cast<double>(in) : scale};
  const auto inside = [&](double x) {
    return static_cast<std::int64_t>(std::clamp(x, 0.0, static_cast<double>(in - 1)));
  };
  cpu::AxisTable table;
  for (std::int64_t i = 0; i < out; ++i) {
    const double x = input_coordinate(r.coordinates, of, static_cast<double>(out), i);
    if (r.mode == ResizeMode::nearest) {
      table.low.push_back(inside(nearest_place(r.rounding, x)));
    } else {
      const double low = std::floor(x);
      table.low.push_back(inside(low));
      table.high.push_back(inside(low + 1));
      table.weight.push_back(static_cast<float>(x - low));
    }
  }
  return table;
}

}  // namespace unisono::network
