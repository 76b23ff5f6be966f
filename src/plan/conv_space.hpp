#pragma once
/// The configurations that are worth a look for a problem.

#include <vector>

#include "plan/conv_override.hpp"
#include "plan/conv_problem.hpp"

namespace unisono::plan {

/// All combinations of tile, order, loads, cluster, split and mode that could suit the problem, with as many stages as
/// fit; what `fixed` names stands as it says in every one. Not all are legal.
std::vector<ConvConfig> configurations(const ConvProblem& problem, const Device& device, const FixedFields& fixed);

}  // namespace unisono::plan
