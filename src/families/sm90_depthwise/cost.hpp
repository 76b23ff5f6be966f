#pragma once
/// What a strip costs: instructions, registers, time.

#include "families/sm90_depthwise/strip.hpp"
#include "plan/device.hpp"

namespace unisono::families::sm90_depthwise {

/// Instructions that a warp issues for a strip, and the registers of a thread: docs/notes/hopper-conv.md.
/// It loads so many image rows ahead of their use.
int depthwise_rows_ahead(const DepthwiseStrip& strip, const sm90::ConvProblem& problem);
double depthwise_instructions(const DepthwiseStrip& strip, const sm90::ConvProblem& problem);
int depthwise_registers(const DepthwiseStrip& strip, const sm90::ConvProblem& problem);

/// Microseconds of one launch by graph replay, cold operands.
double predict_depthwise_us(const DepthwisePlan& plan, const sm90::ConvProblem& problem, const plan::Device& device);

}  // namespace unisono::families::sm90_depthwise
