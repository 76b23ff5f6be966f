#pragma once
/// Convolutions whose groups have one input channel, by ordinary multiplications: kernels/unisono/sm90/depthwise.cuh.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "families/interface/plan.hpp"
#include "families/sm90/fields.hpp"
#include "families/sm90/problem.hpp"
#include "plan/device.hpp"
#include "unisono/contraction.hpp"

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

  bool operator==(const DepthwiseConfig&) const = default;
};

/// One way to run one problem.
struct DepthwisePlan : families::Plan {
  DepthwiseConfig config;
  int images = 0, rows = 0, tiles_m = 0, tiles_n = 0, tiles = 0;
};

/// Whether a convolution has as many groups as input channels, which come as the kernels' loads take them.
bool is_depthwise(const plan::ConvTask& task);

/// Why no such kernel serves a convolution of as many groups as input channels; nothing: one may.
std::optional<plan::Refusal> refuse_depthwise(const sm90::ConvProblem& problem);

/// The candidates that `fixed` leaves, all of them legal; none if it fixes anything that such a kernel does not have.
std::vector<DepthwiseConfig> depthwise_configurations(const sm90::ConvProblem& problem, const plan::Device& device,
                                                      const sm90::FixedFields& fixed);

/// Threads of a CTA of such a configuration.
int depthwise_threads(const DepthwiseConfig& config);

/// How the strips of an output follow one another: images, bands of neighbouring rows of strips, columns, rows.
struct DepthwiseLayout {
  int lattice_h = 1, lattice_w = 1;  ///< output pixels from a strip's image row, and column, to its next
  std::int64_t across = 0, down = 0, strips = 0;
  int band = 1;  ///< rows of strips; divides `down`
};
DepthwiseLayout depthwise_layout(const DepthwiseStrip& strip, const Conv2d& conv, const Extents& output);

/// The launch, without workspace, and its predicted time.
DepthwisePlan lay_out_depthwise(const DepthwiseConfig& config, const sm90::ConvProblem& problem,
                                const plan::Device& device);

/// Instructions that a warp issues for a strip, and the registers of a thread: docs/notes/hopper-conv.md.
/// It loads so many image rows ahead of their use.
int depthwise_rows_ahead(const DepthwiseStrip& strip, const sm90::ConvProblem& problem);
double depthwise_instructions(const DepthwiseStrip& strip, const sm90::ConvProblem& problem);
int depthwise_registers(const DepthwiseStrip& strip, const sm90::ConvProblem& problem);

/// Microseconds of one launch by graph replay, cold operands.
double predict_depthwise_us(const DepthwisePlan& plan, const sm90::ConvProblem& problem, const plan::Device& device);

/// The candidates, the fastest predicted first; all are legal.
std::vector<DepthwisePlan> depthwise_candidates(const plan::ConvTask& task, const plan::Epilogue& epilogue,
                                                const plan::Device& device, const plan::Override& fixed = {});

/// "depthwise 64x32 in strips of …"; with the launch.
std::string to_string(const DepthwiseConfig& config);
std::string describe(const DepthwisePlan& plan);

/// "strips of 16x4 pixels by 4 channels of 3x3 taps".
std::string to_string(const DepthwiseStrip& strip);

}  // namespace unisono::families::sm90_depthwise
