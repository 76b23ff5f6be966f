#pragma once
/// The weights of operators::Resample.

#include <vector>

#include "runtime/cpu/ops/resample.hpp"
#include "unisono/network.hpp"

namespace unisono::network {

/// One axis of `in` elements that becomes one of `out`.
struct AxisScale {
  std::int64_t in = 1, out = 1;
  double scale = 1;
};

/// Where output element i lies in the input, in float64. `made`: what the scale makes of the input's extent, before it
/// is rounded down. Not crop_and_resize, which needs a region.
double input_coordinate(ResizeCoordinates mode, const AxisScale& axis, double made, std::int64_t i);

/// The place nearest to a coordinate; it may lie outside.
double nearest_place(NearestRounding mode, double x);

/// Whether resampling leaves this axis as it is.
bool leaves_axis(const operators::Resample& r, std::size_t axis, std::int64_t in, std::int64_t out);

/// AxisTaps of one axis from `in` to `out` elements, by ONNX's definition of Resize; coordinates in float64.
cpu::AxisTaps axis_taps(const operators::Resample& r, std::size_t axis, std::int64_t in, std::int64_t out);

/// By axis: output positions whose coordinate lies outside the input (coordinates crop_and_resize only).
std::vector<std::vector<bool>> outside_positions(const operators::Resample& r, const std::vector<std::int64_t>& in,
                                                 const std::vector<std::int64_t>& out);

/// Sets the elements at these positions of any axis.
void fill_outside(const std::vector<std::vector<bool>>& outside, float value, const cpu::Strided& to);

}  // namespace unisono::network
