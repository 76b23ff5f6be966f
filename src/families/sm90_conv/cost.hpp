#pragma once
/// How long a plan will take: an analytic model of one H200, fitted to the measurements of docs/notes/hopper-conv.md.

#include "families/sm90/problem.hpp"
#include "families/sm90_conv/conv.hpp"

namespace unisono::plan {

/// Microseconds of one launch by graph replay, cold operands.
double predict_us(const ConvPlan& plan, const ConvProblem& problem, const Device& device);

}  // namespace unisono::plan
