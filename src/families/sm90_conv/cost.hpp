#pragma once
/// How long a plan will take: an analytic model of one H200, fitted to the measurements of docs/notes/hopper-conv.md.

#include "families/sm90/problem.hpp"
#include "families/sm90_conv/plan.hpp"

namespace unisono::families::sm90_conv {

/// Microseconds of one launch by graph replay, cold operands.
double predict_us(const ConvPlan& plan, const sm90::ConvProblem& problem, const plan::Device& device);

}  // namespace unisono::families::sm90_conv
