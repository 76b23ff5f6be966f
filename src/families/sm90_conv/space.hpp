#pragma once
/// The configurations that are worth a look for a problem.

#include <vector>

#include "families/interface/override.hpp"
#include "families/sm90/problem.hpp"
#include "families/sm90_conv/config.hpp"

namespace unisono::plan {

/// All combinations of tile, order, loads, cluster, split and mode that could suit the problem, with as many stages as
/// fit; what `fixed` names stands as it says in every one. Not all are legal.
std::vector<ConvConfig> configurations(const ConvProblem& problem, const Device& device, const FixedFields& fixed);

}  // namespace unisono::plan
