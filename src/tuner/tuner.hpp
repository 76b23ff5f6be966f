#pragma once
/// Tries plans of many problems: compiles them in parallel, times those that are ready, checks winners, keeps them.

#include <vector>

#include "coda/tuning.hpp"
#include "tuner/problem.hpp"

namespace coda::tuner {

/// Equal problems are tuned once. Each winner is kept as soon as it is checked, so that what is done is not lost if it
/// ends early. Throws as coda::tune does.
TuningReport tune(const std::vector<Problem>& problems, const TuningOptions& options);

}  // namespace coda::tuner
