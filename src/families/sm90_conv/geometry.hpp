#pragma once
/// From a configuration to a launch: tiles, slots of statistics, split-K, workspace. And what makes a launch illegal.

#include <optional>
#include <string>

#include "families/sm90/fields.hpp"
#include "families/sm90/problem.hpp"
#include "families/sm90_conv/plan.hpp"
#include "plan/expected.hpp"

namespace unisono::families::sm90_conv {

inline constexpr int largest_split = 8;
inline constexpr std::int64_t largest_tile_count = std::int64_t{1}
                                                   << 28;  ///< in a launch: tile numbers times splits stay below 2^31

/// Clusters that run at once; with stationary filters so many that a CTA's tiles, as far apart, have the same
/// channels: a multiple of the `tiles_n` across, 0 if not even these fit.
std::int64_t clusters_in_flight(const ConvConfig& config, std::int64_t tiles_n, const plan::Device& device);

/// Loads of activations for one tile: a halo tile serves all taps.
std::int64_t loads_per_tile(const ConvConfig& config, const sm90::ConvProblem& problem);

/// K-steps of a tile.
std::int64_t steps_per_tile(const ConvConfig& config, const sm90::ConvProblem& problem);

/// Fills everything but predicted_us from `config`, which the static rules below must have accepted. Refuses a launch
/// with a number that does not fit its type.
plan::Expected<ConvPlan> lay_out(const ConvConfig& config, const sm90::ConvProblem& problem,
                                 const plan::Device& device);

/// Why no kernel of this configuration can serve the problem, whatever its launch; nothing: one can.
std::optional<plan::Refusal> refuse_config(const ConvConfig& config, const sm90::ConvProblem& problem,
                                           const plan::Device& device);

/// Why the accumulators of a tile leave too few registers for its epilogue; nothing: they do not.
std::optional<plan::Refusal> refuse_registers(const ConvConfig& config, const sm90::ConvProblem& problem);

/// Why a configuration has no place for a field that an override fixes; nothing: it has, for all.
std::optional<plan::Refusal> refuse_fields(const ConvConfig& config, const sm90::FixedFields& fixed);

/// Why this launch may not run (the statistics of an image do not fit in flight, nothing to split); nothing: it may.
std::optional<plan::Refusal> refuse_launch(const ConvPlan& plan, const sm90::ConvProblem& problem,
                                           const plan::Device& device);

}  // namespace unisono::families::sm90_conv
