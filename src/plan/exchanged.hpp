#pragma once
/// Statistics that the tiles of an image exchange where they are not a normalisation's.

#include "plan/epilogue.hpp"
#include "plan/expected.hpp"

namespace unisono::plan {

/// The stage that is complete when all tiles of an image, or of all images, are: the reductions over rows that elements
/// read again, of any number of values, and the value that waits for them. Refuses reductions that do not all run over
/// the same rows and groups of channels, reductions of reductions, variances, those over a row's channels, and elements
/// that read several values of the accumulators behind them.
Expected<Stage> find_exchanged(const Graph& graph);

}  // namespace unisono::plan
