#pragma once
/// Operands [m,n] that TMA brings into the staging buffers while their tile is multiplied:
/// kernels/unisono/epilogue/sm90_fetch.cuh.

#include <string>
#include <vector>

#include "plan/fetchable.hpp"

namespace unisono::plan {

struct ConvConfig;
struct ConvProblem;

/// The most that one kernel fetches.
inline constexpr int most_fetched = 3;

/// How many a kernel of this configuration could fetch.
int fetchable(const ConvConfig& config, const ConvProblem& problem);

/// Why a kernel of this configuration cannot fetch as many as it says; empty: it can.
std::string refuse_fetch(const ConvConfig& config, const ConvProblem& problem);

/// How operands [m,n] come to the epilogue, for people; empty without any.
std::string describe_operands(const ConvConfig& config, const ConvProblem& problem);

}  // namespace unisono::plan
