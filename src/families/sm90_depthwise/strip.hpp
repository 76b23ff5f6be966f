#pragma once
/// Strips of a depthwise convolution: what a thread computes, and how they follow one another.

#include <cstdint>

#include "families/interface/plan.hpp"
#include "families/sm90/fields.hpp"
#include "families/sm90/problem.hpp"

namespace unisono::families::sm90_depthwise {

/// What a thread computes: a strip of so many image rows of so many pixels of neighbouring channels. The rows are the
/// launch's alone, all else is compiled.
struct DepthwiseStrip {
  int rows = 8, pixels = 4, channels = 4;
  int taps_h = 0, taps_w = 0;      ///< 0: any filter, stride and dilation, tap by tap
  int stride_h = 1, stride_w = 1;  ///< compiled with the taps; else 1
  int multiplier = 1;              ///< output channels of an input channel
  int ctas = 1;                    ///< that an SM has registers for

  bool operator==(const DepthwiseStrip&) const = default;
};

/// What a kernel is compiled for.
struct DepthwiseConfig {
  DType element = DType::bf16;  ///< both operands': bf16, f16, or tf32, which lies in memory as f32
  int tile_m = 0, tile_n = 0;   ///< pixels and channels of a CTA
  DepthwiseStrip strip = {};
  sm90::NormMode mode = sm90::NormMode::none;  ///< none or general
  bool flipped = false;                        ///< the filter's taps are read in reverse

  bool operator==(const DepthwiseConfig&) const = default;
};

/// One way to run one problem.
struct DepthwisePlan : families::Plan {
  DepthwiseConfig config;
  int images = 0, rows = 0, tiles_m = 0, tiles_n = 0, tiles = 0;
};

/// How the strips of an output follow one another: images, bands of neighbouring rows of strips, columns, rows.
struct DepthwiseLayout {
  int lattice_h = 1, lattice_w = 1;  ///< output pixels from a strip's image row, and column, to its next
  std::int64_t across = 0, down = 0, strips = 0;
  int band = 1;  ///< rows of strips; divides `down`
};
DepthwiseLayout depthwise_layout(const DepthwiseStrip& strip, const Conv2d& conv, const Extents& output);

inline std::int64_t divide_up(std::int64_t x, std::int64_t by) { return (x + by - 1) / by; }

inline int columns_in(const DepthwiseStrip& s) { return (s.pixels - 1) * s.stride_w + s.taps_w; }

/// Output rows that an image row contributes to.
inline int overlap(const DepthwiseStrip& s) { return static_cast<int>(divide_up(s.taps_h, s.stride_h)); }

/// Bytes of the vector of input channels that a thread loads at once.
inline std::int64_t load_bytes(const DepthwiseStrip& s, const sm90::ConvProblem& p) {
  return s.channels / s.multiplier * p.element_bytes();
}

}  // namespace unisono::families::sm90_depthwise
