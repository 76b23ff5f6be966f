#pragma once
/// How far TMA's loads of activations reach.

#include <optional>

#include "plan/refusal.hpp"
#include "unisono/contraction.hpp"

namespace unisono::families::sm90 {

/// A TMA box has 256 image rows and pixels; two stages of the smallest halo tile leave room for filters.
bool halo_tiles_reach(const Conv2d& conv);
/// Those of volumes, which lie in one plane.
bool halo_tiles_reach(const Conv3d& volume);

/// What im2col loads, for tensors of four dimensions, cannot reach along an axis (0: the height); nothing: they can.
std::optional<plan::Refusal> beyond_im2col(const Conv2d& conv, int axis);

/// The same of volumes, tensors of five dimensions, along every axis.
std::optional<plan::Refusal> beyond_im2col(const Conv3d& volume);

/// What neither halo tiles nor im2col loads reach; nothing: one of them does.
std::optional<plan::Refusal> beyond_tiles(const Conv2d& conv);

}  // namespace unisono::families::sm90
