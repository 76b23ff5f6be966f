#pragma once
/// The weights of operators::Resample.

#include <vector>

#include "coda/network.hpp"
#include "runtime/cpu/ops/resample.hpp"

namespace coda::network {

/// Whether resampling leaves this axis as it is.
bool leaves_axis(const operators::Resample& r, std::size_t axis, std::int64_t in, std::int64_t out);

/// AxisTaps of one axis from `in` to `out` elements, by ONNX's definition of Resize; coordinates in float64.
cpu::AxisTaps axis_taps(const operators::Resample& r, std::size_t axis, std::int64_t in, std::int64_t out);

/// By axis: output positions whose coordinate lies outside the input (coordinates crop_and_resize only).
std::vector<std::vector<bool>> outside_positions(const operators::Resample& r, const std::vector<std::int64_t>& in,
                                                 const std::vector<std::int64_t>& out);

/// Sets the elements at these positions of any axis.
void fill_outside(const std::vector<std::vector<bool>>& outside, float value, const cpu::Strided& to);

}  // namespace coda::network
