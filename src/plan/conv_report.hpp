#pragma once
/// Refusals as text.

#include <string>
#include <vector>

#include "plan/conv.hpp"

namespace unisono::plan {

/// The refused candidates by reason, the most frequent first, a line each: the reason, how many candidates, one of
/// them. Reasons that differ in their numbers only share a line.
std::string refusals_by_reason(const std::vector<Candidate>& all, std::size_t most = 20);

/// The message of an Unsupported: no candidate is legal.
std::string no_candidate(const ConvTask& task, const std::vector<Candidate>& all, const Override& fixed);

}  // namespace unisono::plan
