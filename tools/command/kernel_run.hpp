#pragma once
/// Running a kernel on its data, on the CPU or a GPU, and measuring it.

#include "command/execution.hpp"
#include "command/kernel_problem.hpp"
#include "unisono/executable.hpp"

namespace unisono::command {

/// Runs once, and then `repeat` times to measure; the outputs are those of the first run, or of the last on the CPU. A
/// run on a GPU is timed by events around a replay of a CUDA graph, without copies.
Timing run_kernel(const Executable& kernel, KernelProblem& problem, bool cuda, int repeat);

}  // namespace unisono::command
