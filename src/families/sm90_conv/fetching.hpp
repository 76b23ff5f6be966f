#pragma once
/// Operands [m,n] that TMA brings into the staging buffers while their tile is multiplied:
/// kernels/unisono/epilogue/sm90_fetch.cuh.

#include <optional>
#include <string>
#include <vector>

#include "families/sm90/fetchable.hpp"
#include "families/sm90/fields.hpp"
#include "families/sm90/problem.hpp"
#include "families/sm90_conv/config.hpp"

namespace unisono::families::sm90_conv {

/// The most that one kernel fetches. Each has a tensor map of 128 bytes in the kernel's parameter, and beyond the first
/// four warps' staging buffers of its own.
inline constexpr int most_fetched = 8;

/// How many a kernel of this configuration could fetch.
int fetchable(const ConvConfig& config, const sm90::ConvProblem& problem);

/// Adds the configuration to the list for each number of operands that TMA may bring, with the buffers that they need.
void add_fetching(std::vector<ConvConfig>& list, const ConvConfig& base, const sm90::ConvProblem& problem,
                  const plan::Device& device, const sm90::FixedFields& fixed);

/// The same; streamed, for each order and hint.
void add_staged(std::vector<ConvConfig>& list, ConvConfig base, const sm90::ConvProblem& problem,
                const plan::Device& device, const sm90::FixedFields& fixed);

/// Why a kernel of this configuration cannot fetch as many as it says; nothing: it can.
std::optional<plan::Refusal> refuse_fetch(const ConvConfig& config, const sm90::ConvProblem& problem);

/// How operands [m,n] come to the epilogue, for people; empty without any.
std::string describe_operands(const ConvConfig& config, const sm90::ConvProblem& problem);

}  // namespace unisono::families::sm90_conv
