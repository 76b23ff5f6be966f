#pragma once
/// Tries plans of many problems: compiles them in parallel, times those that are ready, checks winners, keeps them.

#include <vector>

#include "tuner/problem.hpp"
#include "unisono/tuning.hpp"

namespace unisono::tuner {

/// Equal problems are tuned once. Each winner is kept as soon as it is checked, so that what is done is not lost if it
/// ends early. Throws as unisono::tune does.
TuningReport tune(const std::vector<Problem>& problems, const TuningOptions& options);

}  // namespace unisono::tuner
