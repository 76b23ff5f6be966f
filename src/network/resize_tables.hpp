#pragma once
/// Tables of source pixels for resize.

#include "coda/network.hpp"
#include "runtime/cpu/ops/resize.hpp"

namespace coda::network {

/// Table of one axis from `in` to `out` pixels; `scale` 0 means out/in. Coordinates are computed in float64 by the
/// formulas of ResizeCoordinates; beyond the edge the edge is repeated.
cpu::AxisTable axis_table(const operators::Resize& r, std::int64_t in, std::int64_t out, double scale);

}  // namespace coda::network
