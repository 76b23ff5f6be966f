#pragma once
/// How many stages and store buffers a configuration has: as many as cover the loads' latency, and fit.

#include <cstddef>
#include <cstdint>

#include "families/sm90/fields.hpp"
#include "families/sm90/problem.hpp"
#include "families/sm90_conv/config.hpp"

namespace unisono::families::sm90_conv {

/// Slices that a warp may have under way. Streamed: a whole tile waits there. Where epilogues run beside a main loop
/// (ping-pong) a second buffer lets a warp go on; alone, the shared memory serves the stages better.
int buffers(const ConvConfig& config);

/// K-steps that the producer can be ahead of the consumers. A halo tile serves one for each tap.
std::int64_t lead(const ConvConfig& config, const sm90::ConvProblem& problem);

/// Clocks of a k-step's matrix instructions.
std::int64_t step_clk_of(const ConvConfig& config, const sm90::ConvProblem& problem);

/// Sets the stages that `fixed` leaves open.
void choose_stages(ConvConfig& config, const sm90::ConvProblem& problem, const plan::Device& device,
                   const sm90::FixedFields& fixed);

/// Gives fetched operands as many staging buffers, up to a tile's, as leave the stages the lead that covers their
/// loads; two at least if four warps write one. False if not even these leave one.
bool choose_buffers(ConvConfig& config, const sm90::ConvProblem& problem, const plan::Device& device,
                    const sm90::FixedFields& fixed);

}  // namespace unisono::families::sm90_conv
