#pragma once
/// Clocks in which tiles of a row exchange what they have of it, and in which reductions over rows are merged that are
/// stored, or that elements of a general epilogue read.

#include "families/sm90/problem.hpp"
#include "families/sm90_conv/plan.hpp"

namespace unisono::families::sm90_conv {

/// In which the tiles of a row exchange what they have of it.
double meeting_clk(const ConvPlan& p);

/// Tiles of a row that wait for one another, dealt in turn: from a CTA's first main loop to the last epilogue. A row
/// whose tiles are of two rounds holds those of the first until the second's are multiplied; the other consumer group
/// multiplies meanwhile.
double rounds_that_meet_clk(const ConvPlan& p, double main, double epilogue);

/// What the slots of a column of tiles have of so many planes.
double merging_clk(const ConvPlan& p, int planes);

/// From the last tile's share of stored reductions to their results: a column's, then those of all images.
double stored_clk(const ConvPlan& p, const sm90::ConvProblem& problem);

/// Until an image's reductions are there that its elements read again, once all of its tiles have added.
double returned_clk(const ConvPlan& p, const sm90::ConvProblem& problem);

/// Clocks that a tile of an exchange spends on reading statistics beyond one trip to L2: where groups of so many
/// channels do not fit its channels, a group has many units, and an image of many tiles many messages of each.
double gathering_clk(const ConvPlan& p, int group_channels);

}  // namespace unisono::families::sm90_conv
