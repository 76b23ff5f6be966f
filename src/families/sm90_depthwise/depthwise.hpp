#pragma once
/// Convolutions whose groups have one input channel, by ordinary multiplications: kernels/unisono/sm90/depthwise.cuh.

#include <optional>
#include <string>
#include <vector>

#include "families/sm90/fields.hpp"
#include "families/sm90_depthwise/cost.hpp"
#include "plan/device.hpp"
#include "unisono/contraction.hpp"

namespace unisono::families::sm90_depthwise {

/// Whether a convolution has as many groups as input channels, which come as the kernels' loads take them.
bool is_depthwise(const plan::ConvTask& task);

/// The convolution that such a kernel runs: a transposed one of stride 1 by flipped taps.
plan::ConvTask as_run(const plan::ConvTask& task);

/// Why no such kernel serves a convolution of as many groups as input channels; nothing: one may.
std::optional<plan::Refusal> refuse_depthwise(const sm90::ConvProblem& problem);

/// The candidates that `fixed` leaves, all of them legal; none if it fixes anything that such a kernel does not have.
std::vector<DepthwiseConfig> depthwise_configurations(const sm90::ConvProblem& problem, const plan::Device& device,
                                                      const sm90::FixedFields& fixed);

/// Threads of a CTA of such a configuration.
int depthwise_threads(const DepthwiseConfig& config);

/// The launch, without workspace, and its predicted time.
DepthwisePlan lay_out_depthwise(const DepthwiseConfig& config, const sm90::ConvProblem& problem,
                                const plan::Device& device);

/// The candidates, the fastest predicted first; all are legal.
std::vector<DepthwisePlan> depthwise_candidates(const plan::ConvTask& task, const plan::Epilogue& epilogue,
                                                const plan::Device& device, const PlanOverride& fixed = {});

/// "depthwise 64x32 in strips of …"; with the launch.
std::string to_string(const DepthwiseConfig& config);
std::string describe(const DepthwisePlan& plan);

/// "strips of 16x4 pixels by 4 channels of 3x3 taps".
std::string to_string(const DepthwiseStrip& strip);

}  // namespace unisono::families::sm90_depthwise
