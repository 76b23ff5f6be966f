#pragma once
/// Epilogues of the mode `general`: what kernels/unisono/epilogue/general.cuh serves.

#include "plan/epilogue.hpp"
#include "plan/expected.hpp"
#include "plan/tile_limits.hpp"
#include "unisono/contraction.hpp"

namespace unisono::plan {

/// Whether the graph needs more than a value for each element, from its channel's, its image's and one normalisation's:
/// values of rows, coordinates, functions called for their effect, results other than one or two [m,n] of 16 bits,
/// reductions that are stored. What elements read of many rows only the normalisations of epilogue.hpp serve.
bool needs_general(const Graph& optimised);

/// Takes passes::EpilogueGraphs::general. Refuses with the value at fault, its text and the reason.
Expected<Epilogue> analyse_general(const Graph& graph, const Extents& extents, const TileLimits& limits);

}  // namespace unisono::plan
