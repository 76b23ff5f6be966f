#pragma once
/// The shared memory of a convolution kernel, to the byte: what ConvFprop<Config, Visitor>::kSharedBytes is in
/// kernels/unisono. tests/unit/families/sm90_conv/shared_memory_cases.cpp compares the two with the CUDA compiler.

#include <cstddef>

#include "families/sm90_conv/config.hpp"
#include "plan/visitor_shape.hpp"

namespace unisono::families::sm90_conv {

/// Channels of a slice that one warp stores at once: the largest of 64, 32, 16, 8 that divides tile_n.
int slice_channels(int tile_n);

/// Slices that a warp stores for one tile.
int stores_per_tile(const ConvConfig& config);

/// All four warps of a warpgroup write to each slice: with swapped operands, or without where the result is planes.
bool writes_together(const ConvConfig& config);

/// Bytes of one stage of activations, and of filters.
std::size_t activation_stage_bytes(const ConvConfig& config);
std::size_t filter_stage_bytes(const ConvConfig& config);

/// Dynamic shared memory of a CTA.
std::size_t shared_bytes(const ConvConfig& config, const plan::VisitorShape& visitor);

}  // namespace unisono::families::sm90_conv
