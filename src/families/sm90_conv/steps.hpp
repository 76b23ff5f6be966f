#pragma once
/// How many k-steps a tile has, as the cost model counts them.

#include "families/sm90/problem.hpp"
#include "families/sm90_conv/plan.hpp"

namespace unisono::families::sm90_conv {

/// Clusters of the launch.
int clusters_of(const ConvPlan& plan);

/// Steps of a tile, or of its part of split-K: the mean where output-parity phases differ in theirs.
double steps_of(const ConvPlan& plan, const sm90::ConvProblem& problem);

}  // namespace unisono::families::sm90_conv
