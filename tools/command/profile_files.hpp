#pragma once
/// The files that a measured run is written to.

#include <string>
#include <vector>

#include "command/arguments.hpp"
#include "command/execution.hpp"
#include "command/model.hpp"

namespace unisono::command {

struct ProfiledRun {
  const Model& model;
  const std::vector<StepTime>& profile;
  const std::vector<Timing>& spread;  ///< by step; or empty
  const Timing& timing;
  Shapes shapes;  ///< by input
  const FusionReport& fusion;
};

/// Whether the time of each step is asked for.
bool wants_profile(const RunOptions& options);

Shapes shapes_of(const Tensors& inputs);

/// --trace, --svg, --html and --asm. Returns the files.
std::vector<std::string> write_profile(const RunOptions& options, const NetworkOptions& network,
                                       const ProfiledRun& run);

}  // namespace unisono::command
