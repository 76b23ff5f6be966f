#pragma once
/// `unisono run` of an epilogue: one kernel on data.

#include "command/arguments.hpp"

namespace unisono::command {

/// Whether the subject is an epilogue's text and no model. Throws UserError for options that do not go with what the
/// subject is.
bool is_epilogue(const RunOptions& options);

/// Compiles the epilogue for its contraction, runs it on the arrays or random numbers, writes what it stores, and
/// prints times and, with --check, how the results compare with the float64 reference.
int run_epilogue(const RunOptions& options);

}  // namespace unisono::command
