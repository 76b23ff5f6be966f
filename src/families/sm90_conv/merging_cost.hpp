#pragma once
/// Clocks in which tiles of a row exchange what they have of it, and in which reductions over rows are merged that are
/// stored, or that elements of a general epilogue read.

#include "families/sm90/problem.hpp"
#include "families/sm90_conv/plan.hpp"

namespace unisono::families::sm90_conv {

/// In which the tiles of a row exchange what they have of it.
double meeting_clk(const ConvPlan& p);

/// What the slots of a column of tiles have of so many planes.
double merging_clk(const ConvPlan& p, int planes);

/// From the last tile's share of stored reductions to their results: a column's, then those of all images.
double stored_clk(const ConvPlan& p, const sm90::ConvProblem& problem);

/// Until an image's reductions are there that its elements read again, once all of its tiles have added.
double returned_clk(const ConvPlan& p, const sm90::ConvProblem& problem);

}  // namespace unisono::families::sm90_conv
