#pragma once
/// `coda explain --device cuda`: the plan and the source of one kernel.

#include "coda/graph.hpp"
#include "command/arguments.hpp"

namespace coda::command {

/// Prints the plan, its alternatives, what a launch hands over, and the source. Returns the exit code.
int explain_cuda(const ExplainOptions& options, const Graph& graph);

}  // namespace coda::command
