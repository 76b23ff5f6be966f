#pragma once
/// What the fuser makes of a model.

#include "command/arguments.hpp"

namespace unisono::command {

/// `unisono explain` of a model; returns the exit code.
int explain_model(const ExplainOptions& options);

}  // namespace unisono::command
