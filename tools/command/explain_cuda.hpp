#pragma once
/// `unisono explain --device cuda`: the plan and the source of one kernel.

#include "command/arguments.hpp"
#include "unisono/graph.hpp"

namespace unisono::command {

/// Prints the plan, its alternatives, what a launch hands over, and the source. Returns the exit code.
int explain_cuda(const ExplainOptions& options, const Graph& graph);

}  // namespace unisono::command
