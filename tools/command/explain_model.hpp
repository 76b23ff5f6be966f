#pragma once
/// What the fuser makes of a model.

#include "command/arguments.hpp"

namespace coda::command {

/// `coda explain` of a model; returns the exit code.
int explain_model(const ExplainOptions& options);

}  // namespace coda::command
