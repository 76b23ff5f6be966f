#pragma once
/// Tables of source pixels for resize.

#include "runtime/cpu/ops/resize.hpp"
#include "unisono/network.hpp"

namespace unisono::network {

/// Table of one axis from `in` to `out` pixels; `scale` 0 means out/in. Coordinates are computed in float64 by the
/// formulas of ResizeCoordinates; beyond the edge the edge is repeated.
cpu::AxisTable axis_table(const operators::Resize& r, std::int64_t in, std::int64_t out, double scale);

}  // namespace unisono::network
