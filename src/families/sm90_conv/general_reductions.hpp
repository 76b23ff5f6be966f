#pragma once
/// General epilogues: which tiles wait for one another, and whether their accumulators wait in memory.

#include "families/sm90/problem.hpp"
#include "families/sm90_conv/config.hpp"

namespace unisono::families::sm90_conv {

/// Those of the configuration's tile, schedule and cluster. Where accumulators wait in memory for what elements read of
/// several rows (ConvProblem::spills), tiles of a row still exchange what is reduced of it while they are in flight, if
/// so many fit.
GeneralReductions general_reductions(const ConvConfig& config, const sm90::ConvProblem& problem,
                                     const plan::Device& device);

}  // namespace unisono::families::sm90_conv
