#pragma once
/// Comparing what a kernel stored with the float64 reference.

#include <string>
#include <utility>
#include <vector>

#include "command/kernel_problem.hpp"
#include "reference/reference.hpp"
#include "unisono/executable.hpp"

namespace unisono::command {

/// By the stores' names.
using KernelAgreements = std::vector<std::pair<std::string, reference::Agreement>>;

/// Computes the reference from the problem's arrays, with the bounds of the CPU's kernels or of the GPU kernel that
/// `options` lead to, and compares every value of its outputs.
KernelAgreements check_kernel(KernelProblem& problem, const CompileOptions& options);

/// Every value that has a bound is within it, and at least one has.
bool is_right(const reference::Agreement& agreement);

}  // namespace unisono::command
