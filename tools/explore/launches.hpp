#pragma once
/// The launches of a network as a page shows them.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "unisono/network/executable.hpp"

namespace unisono::explore {

/// What a launch is for; pages colour launches by it.
enum class Kind : std::uint8_t {
  contraction,
  attention,
  normalisation,
  elementwise,
  movement,   ///< it computes nothing: a copy, a change of layout or type, a gather
  reduction,  ///< reductions, pools, resampling, sorting, updates
  host,
};
std::string_view to_string(Kind kind);

struct Launch {
  LaunchReport report;
  Kind kind = Kind::elementwise;
  std::optional<double> measured_us = {};
  std::optional<std::size_t> step = {};  ///< in the run's profile, if it was measured
};

/// By the operators that its text names, and those of its region; `region` is null at the border of a network.
Kind kind_of(const LaunchReport& launch, const RegionReport* region);

/// The kinds of a run's steps.
std::vector<Kind> kinds_of(const FusionReport& report, const std::vector<StepTime>& profile);

/// On a GPU: the launches of the report. `profile`: the steps of a run, or nothing.
std::vector<Launch> launches_of(const DeviceReport& report, const std::vector<StepTime>& profile);

/// On the CPU: the steps of a run, or the regions that are not free.
std::vector<Launch> launches_of(const FusionReport& report, const std::vector<StepTime>& profile);

}  // namespace unisono::explore
