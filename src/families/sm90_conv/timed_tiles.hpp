#pragma once
/// Which tiles the cost model was fitted to.

#include "families/sm90_conv/config.hpp"

namespace unisono::families::sm90_conv {

/// Tiles and orders that have been timed; the others bear the risk of what the model does not know.
inline bool was_timed(const ConvConfig& c) {
  const auto is = [&](int m, int n) { return c.tile.m == m && c.multiplied_n() == n; };
  const bool pingpong2 = c.schedule.order == sm90::Order::pingpong2;
  if (c.schedule.consumer_groups() == 1)
    return is(128, 80) || is(256, 80) || is(128, 96) || is(128, 128) || is(128, 160) || is(256, 128) ||
           (c.meets() && (is(128, 192) || is(128, 256)));
  if (c.schedule.swap) return !pingpong2 && (is(128, 128) || (c.two_dimensional() && is(256, 64)));
  return is(128, 128) || is(256, 64) || (is(128, 160) && !pingpong2) ||
         (is(64, 256) && !pingpong2 && (c.two_dimensional() || c.meets()));
}

}  // namespace unisono::families::sm90_conv
