#pragma once
/// What tiles exchange: messages about pieces of channels (kernels/unisono/exchange/pieces.cuh), and which tiles wait
/// for which.

#include <cstdint>

#include "families/sm90/problem.hpp"
#include "families/sm90_conv/plan.hpp"

namespace unisono::families::sm90_conv {

/// Tiles across, of a cluster each, that the channels of a group touch, at most.
std::int64_t tiles_of_group(const ConvConfig& config, std::int64_t group_channels);

/// Messages in which a slot tells of a tile's channels, at most, and of all `channels`
/// (kernels/unisono/exchange/pieces.cuh).
int pieces_of_tile(const ConvConfig& config, int group_channels);
std::int64_t pieces_of_row(const ConvConfig& config, int group_channels, std::int64_t channels);

/// Whether a message for all channels that a tile and a group share (kernels/unisono/exchange/pieces.cuh) is better
/// than one for each `unit` of them. It takes longer to make, and pays where a crew would read the units of a tile's
/// groups, or of an image, in several steps: 15.3 against 17.0 us at 26,41,29,592,272,1, but 447 against 342 at
/// 26,176,45,256,736,1.
bool pieces_pay(const ConvConfig& config, const sm90::ConvProblem& problem, int unit);

/// Resident: from a tile to the last one, in the order, whose statistics it waits for, at most, in clusters' items.
/// Those of an image, or by channels of the tiles across that a group of channels touches.
std::int64_t items_that_wait(const ConvPlan& plan, std::int64_t group_channels);

/// Messages of an image pass from all slots to all tiles in one step if a crew loads them at once. Else slots form
/// segments, as few as there can be, each of which warps merge first.
void lay_out_segments(ConvPlan& plan, int group_channels);

}  // namespace unisono::families::sm90_conv
