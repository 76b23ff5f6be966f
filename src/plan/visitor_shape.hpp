#pragma once
/// Sizes of the visitor that is generated for an epilogue, which kernels lay their shared memory out by.

#include <vector>

#include "plan/epilogue.hpp"

namespace unisono::plan {

/// What shared memory and workspace depend on beside the configuration.
struct VisitorShape {
  enum class Side { none, before, after };
  bool normalises = false;                    ///< or elements wait for other statistics that tiles exchange:
  int exchanged = 0;                          ///< reductions of which they are; 0: moments of one value
  bool short_tensors_before = false;          ///< operands [m,n] of 16 bits are read ahead of the normalisation
  int columns_before = 0, columns_after = 0;  ///< floats a channel
  int late_words = 0;                         ///< operands of factor and shift, floats a channel
  Side side = Side::none;                     ///< the second [m,n] store
  bool general = false;
  /// Floats of stored reductions: a channel and warp; a channel in the workspace; a whole tile. General, of reductions
  /// over a row's channels the most of a level, and entries of three of all levels.
  int fold_words = 0, fold_planes = 0, tile_folds = 0, row_folds = 0, row_entries = 0;
  /// For reductions over rows that elements read again: floats of a channel in the workspace, entries of a result,
  /// levels of all kinds; and the most floats of a channel and warp at a time, stored reductions included.
  int returned_planes = 0, returned_entries = 0, returned_levels = 0, own_words = 0;
  /// Those of these levels that are not empty, behind each of which there is a pass over tiles that wait in memory; and
  /// the reductions of a row up to the last of them.
  int returning_levels = 0, kept_row_folds = 0;
  bool returns = false, returns_all = false;  ///< there are such; some over the rows of all images
  std::vector<int> group_widths = {};         ///< those of reductions over groups of a row's channels

  bool folds_ahead = false;  ///< some stored reductions are of values ahead of these statistics

  /// Reductions over rows are stored.
  bool folds() const { return fold_words + tile_folds > 0; }
};

/// Floats of a result that elements read again.
int returned_values(const Statistics& domain);

/// Stored reductions that are kept for each channel, as moments for each channel, and for a whole tile.
struct FoldCounts {
  int channel = 0, moments = 0, tile = 0;
};
FoldCounts fold_counts(const Epilogue& epilogue);

/// The values that `affine` of a visitor finds ready when the statistics arrive (its Late): of all that factor and
/// shift are computed from, the coarsest cut of values that depend on no statistic; those without axes are not among
/// them. In the order of their numbers, each one float a channel.
std::vector<ValueId> late_values(const Epilogue& epilogue);

/// For each value, whether it is computed from the normalisation's result, or is that; or, without one, from what tiles
/// exchange.
std::vector<bool> behind_statistics(const Epilogue& epilogue);

VisitorShape visitor_shape(const Epilogue& epilogue);

}  // namespace unisono::plan
