#pragma once
/// A plan of this family: its configuration, and the launch that follows from it for one problem.

#include <cstddef>

#include "families/interface/plan.hpp"
#include "families/sm90_conv/config.hpp"

namespace unisono::families::sm90_conv {

/// Parts of the workspace, in bytes from its start; its memory must be zero before the first launch.
struct Workspace {
  std::size_t bytes = 0, exits = 0, slots = 0, segments = 0, flags = 0, partials = 0;
  std::size_t folds = 0, fold_results = 0, fold_rows = 0, fold_counters = 0;  ///< general; floats, then counters
  std::size_t image = 0, filter = 0, converted = 0;  ///< converted planes, and their units' flags
  std::size_t spilled = 0;                           ///< streamed: tiles of 8 pixels by image rows that wait
};

/// Planes that a launch converts, in units: kernels/unisono/load/sm90_from_planes.cuh, PlanesToConvert.
struct Conversion {
  int blocks = 0, bands = 0, filter_pieces = 0, filter_units = 0, units = 0, ahead = 0, units_ahead = 0;
};

/// One way to run one problem.
struct ConvPlan : families::Plan {
  ConvConfig config;
  int images = 0, rows = 0, tiles_m = 0, tiles_n = 0, tiles = 0, tiles_w = 0, channel_blocks = 0, splits = 1;
  int slots_per_image = 0, segment_slots = 1, segments_per_image = 0;
  Conversion conversion;
  Workspace workspace;
};

}  // namespace unisono::families::sm90_conv
