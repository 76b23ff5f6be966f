#pragma once
/// Convolutions whose groups have one input channel, by ordinary multiplications: kernels/unisono/depthwise.cuh.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "unisono/contraction.hpp"

namespace unisono::plan {

struct ConvConfig;
struct ConvPlan;
struct ConvProblem;
struct Device;
struct FixedFields;

/// What a thread computes: a strip of so many lines of so many pixels of neighbouring channels. The lines are the
/// launch's alone, all else is compiled.
struct DepthwiseStrip {
  int lines = 8, pixels = 4, channels = 4;
  int taps_h = 0, taps_w = 0;      ///< 0: any filter, stride and dilation, tap by tap
  int stride_h = 1, stride_w = 1;  ///< compiled with the taps; else 1
  int multiplier = 1;              ///< output channels of an input channel
  int blocks = 1;                  ///< that an SM has registers for

  bool operator==(const DepthwiseStrip&) const = default;
};

/// Why no such kernel serves a convolution of as many groups as input channels; empty: one may. "-" for all others.
std::string why_not_depthwise(const ConvProblem& problem);

/// The candidates that `fixed` leaves, all of them legal; none if it fixes anything that such a kernel does not have.
std::vector<ConvConfig> depthwise_configurations(const ConvProblem& problem, const Device& device,
                                                 const FixedFields& fixed);

/// Threads of a CTA of such a configuration.
int depthwise_threads(const ConvConfig& config);

/// How the strips of an output follow one another: images, bands of neighbouring lines of strips, columns, lines.
struct DepthwiseLayout {
  int lattice_h = 1, lattice_w = 1;  ///< output pixels from a strip's line, and column, to its next
  std::int64_t across = 0, down = 0, strips = 0;
  int band = 1;  ///< lines of strips; divides `down`
};
DepthwiseLayout depthwise_layout(const DepthwiseStrip& strip, const Conv2d& conv, const Extents& output);

/// The launch, without workspace, and its predicted time.
ConvPlan lay_out_depthwise(const ConvConfig& config, const ConvProblem& problem, const Device& device);

/// Instructions that a warp issues for a strip, and the registers of a thread: docs/notes/hopper-conv.md.
/// It loads so many lines ahead of their use.
int depthwise_lines_ahead(const DepthwiseStrip& strip, const ConvProblem& problem);
double depthwise_instructions(const DepthwiseStrip& strip, const ConvProblem& problem);
int depthwise_registers(const DepthwiseStrip& strip, const ConvProblem& problem);

/// "strips of 16x4 pixels by 4 channels of 3x3 taps".
std::string to_string(const DepthwiseStrip& strip);

}  // namespace unisono::plan
