#pragma once
/// Channels first: times of the conversion within a launch (kernels/unisono/load/sm90_from_planes.cuh), and of results
/// in planes.

#include "families/sm90/problem.hpp"
#include "families/sm90_conv/plan.hpp"
#include "plan/device.hpp"

namespace unisono::families::sm90_conv {

/// The share of all images, 0 to 1, whose conversion comes ahead of all tiles: as much as these would wait for.
double share_ahead(const ConvPlan& plan, const sm90::ConvProblem& problem, const plan::Device& device);

/// What is converted ahead of all else, and by spare warps beside the tiles.
struct ConversionTimes {
  double ahead_us = 0, beside_us = 0;
  double beside_clk = 0;  ///< what the latter adds to the tiles of a CTA
  double written = 0;     ///< bytes, beside
};
ConversionTimes conversion_times(const ConvPlan& plan, const sm90::ConvProblem& problem, const plan::Device& device);

/// Clocks that an element of a thread takes more where results are planes; `spilled` is the share, 0 to 1, of tiles
/// that wait in memory.
double planes_clk(const ConvConfig& config, const sm90::ConvProblem& problem, double spilled);

}  // namespace unisono::families::sm90_conv
