#pragma once
/// The configurations that are worth a look for a problem.

#include <vector>

#include "families/sm90/fields.hpp"
#include "families/sm90/problem.hpp"
#include "families/sm90_conv/config.hpp"

namespace unisono::families::sm90_conv {

/// All combinations of tile, order, loads, cluster, split and mode that could suit the problem, with as many stages as
/// fit; what `fixed` names stands as it says in every one. Not all are legal.
std::vector<ConvConfig> configurations(const sm90::ConvProblem& problem, const plan::Device& device,
                                       const sm90::FixedFields& fixed);

}  // namespace unisono::families::sm90_conv
