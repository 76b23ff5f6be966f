#pragma once
/// From an optimised graph to the shape of its epilogue.

#include "passes/epilogue_graphs.hpp"
#include "plan/epilogue.hpp"
#include "plan/expected.hpp"
#include "plan/tile_limits.hpp"
#include "unisono/contraction.hpp"

namespace unisono::plan {

/// Refuses, with the value at fault, its text and the reason, what no kernel of kernels/unisono serves.
Expected<Epilogue> analyse(const passes::EpilogueGraphs& graphs, const Extents& extents, const TileLimits& limits);

/// That, and what else the graph may be computed as. A normalisation: the general form. A general epilogue: one
/// normalisation over the channels of each row, whose statistics tiles exchange once; a second pass over tiles that
/// wait in memory, for images whose tiles do not fit in flight.
Expected<Forms> analyse_forms(const passes::EpilogueGraphs& graphs, const Extents& extents, const TileLimits& limits);

}  // namespace unisono::plan
