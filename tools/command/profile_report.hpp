#pragma once
/// What run prints of the steps of a run: a table, totals by kind, and what lies between steps.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "command/arguments.hpp"
#include "command/execution.hpp"

namespace unisono::command {

struct Profile {
  const std::vector<StepTime>& steps;  ///< with their median times
  const std::vector<Timing>& spread;   ///< by step; or empty
  const Timing& run;
  const FusionReport& fusion;
};

/// A row for each step with the number of its kernel, in order or sorted; then totals by kind, and the run's time next
/// to the sum of the steps'.
std::string to_text(const Profile& profile, StepOrder order);
/// The steps in order.
nlohmann::json steps_json(const Profile& profile);
/// {"steps_ms", "between_ms", "kinds": […]}; between_ms is negative where launches overlap.
nlohmann::json totals_json(const Profile& profile);

/// What a second of such runs computes: "312.5 images/s" where the first input of two axes or more has four, else
/// examples. Its first extent is the batch.
struct Throughput {
  double per_second = 0;
  const char* unit = "examples";
};
Throughput throughput_of(const Network& network, const Tensors& inputs, const Timing& timing);
std::string to_text(const Throughput& throughput);

}  // namespace unisono::command
