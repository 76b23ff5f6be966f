#pragma once
/// --broad: thousands of random problems, each checked at every element and run twice.

#include <functional>
#include <vector>

#include "gpu/case.hpp"
#include "jit/jit.hpp"

namespace unisono::gpu {

/// What the options ask for: the first `--broad` cases, or `--broad-case`. Prints what was refused while drawing.
std::vector<Case> chosen_broad_cases();

/// One of each family, for the endurance run; with --delays kernels with random delays.
std::vector<Case> broad_endurance_cases();

/// Kernels of the cases, each once, and those of the tests themselves.
std::vector<jit::Request> requests_of(const std::vector<Case>& cases);

/// Compiles all, runs all; exit code 1 if any is wrong, with a line that runs it again.
int run_broad(const std::function<void(const std::vector<jit::Request>&)>& compile);

}  // namespace unisono::gpu
