#pragma once
/// What a strip loads and adds up, for its plan and its cost.

#include "families/sm90_depthwise/depthwise.hpp"

namespace unisono::families::sm90_depthwise {

inline std::int64_t divide_up(std::int64_t x, std::int64_t by) { return (x + by - 1) / by; }

inline int columns_in(const DepthwiseStrip& s) { return (s.pixels - 1) * s.stride_w + s.taps_w; }

/// Output rows that an image row contributes to.
inline int overlap(const DepthwiseStrip& s) { return static_cast<int>(divide_up(s.taps_h, s.stride_h)); }

/// Bytes of the vector of input channels that a thread loads at once.
inline std::int64_t load_bytes(const DepthwiseStrip& s, const sm90::ConvProblem& p) {
  return s.channels / s.multiplier * p.element_bytes();
}

}  // namespace unisono::families::sm90_depthwise
