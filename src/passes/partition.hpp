#pragma once
/// Cuts a graph that has been through the pipeline into stages, so that a visitor can run over tiles of rows.
///
/// Within a stage a visitor walks over tiles of [m,n]; a reduction over rows is complete only when all tiles are done,
/// so what depends on it belongs to the next stage.

#include <vector>

#include "unisono/graph.hpp"

namespace unisono::passes {

struct Stage {
  /// Values that the tiles of this stage compute, in topological order, each value in exactly one stage. Leaves are
  /// left out: they are loaded where they are used.
  std::vector<ValueId> values;
  /// The reductions among `values` that are complete only at the stage's end (they run over rows, or over columns that
  /// a tile does not hold as a whole).
  std::vector<ValueId> reductions;
  /// Values of this stage with axis m that a later stage reads, and acc (of the first stage) if one does: kept in
  /// registers or memory between the two. Other leaves are loaded again. The number of bytes kept is the least
  /// possible: a value that only later stages need is computed there, unless it is smaller than what it is computed
  /// from.
  std::vector<ValueId> kept;
  /// Indices into Graph::stores and Graph::effects that this stage writes or calls.
  std::vector<std::size_t> stores;
  std::vector<std::size_t> effects;
};

struct Partition {
  /// Values without the axes m, n and g that depend on no reduction: computed once, before all tiles.
  std::vector<ValueId> uniform;
  std::vector<Stage> stages;
};

struct PartitionOptions {
  /// A tile holds all columns of its rows, so that reductions over n alone are complete within the tile.
  bool whole_rows = true;
};

/// Values are assigned to the first stage in which their inputs are complete, then delayed where that keeps fewer
/// bytes; so the number of stages is the least possible. There is always at least one stage. Stores of leaves and of
/// uniform values belong to the first. Effects keep their order: none stands in an earlier stage than the one before
/// it. Dead values appear nowhere. Throws InternalError if a normalisation or softmax has not been split.
Partition partition(const Graph& graph, const PartitionOptions& options = {});

}  // namespace unisono::passes
