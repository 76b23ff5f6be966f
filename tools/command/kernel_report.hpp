#pragma once
/// What `unisono run` of an epilogue prints.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "command/arguments.hpp"
#include "command/kernel_check.hpp"
#include "command/kernel_problem.hpp"

namespace unisono::command {

struct KernelReport {
  const RunOptions& options;
  const KernelProblem& problem;
  std::string kernel;  ///< Executable::describe()
  Timing timing;
  KernelAgreements agreements;     ///< with --check
  std::vector<std::string> files;  ///< that were written
};

std::string to_text(const KernelReport& report);
nlohmann::json to_json(const KernelReport& report);

/// "all 2,592 values agree with the float64 reference: largest error 1.2e-07, 14 % of its bound".
std::string to_text(const reference::Agreement& agreement);

}  // namespace unisono::command
