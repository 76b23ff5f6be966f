#pragma once
/// From an optimised graph to the shape of its epilogue.

#include "plan/epilogue.hpp"
#include "plan/expected.hpp"
#include "plan/tile_limits.hpp"
#include "unisono/contraction.hpp"

namespace unisono::plan {

/// Refuses, with the value at fault, its text and the reason, what no kernel of kernels/unisono serves.
Expected<Epilogue> analyse(const Graph& optimised, const Extents& extents, const TileLimits& limits);

}  // namespace unisono::plan
