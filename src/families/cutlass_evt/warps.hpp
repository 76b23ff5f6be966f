#pragma once
/// How the warps of a CTA share a tile in CUTLASS 2.x.

#include "families/cutlass_evt/config.hpp"

namespace unisono::families::cutlass_evt {

struct Warps {
  int down = 2, across = 2;

  int threads() const { return 32 * down * across; }
};

/// Two by two; four along an extent of 256. So a CTA has as many threads as its tile has columns, or more, which
/// VisitorRowReduction takes for granted: a thread of it adds up one column.
constexpr Warps warps_of(const Config& c) { return {c.tile_m == 256 ? 4 : 2, c.tile_n == 256 ? 4 : 2}; }

}  // namespace unisono::families::cutlass_evt
