#pragma once
/// What a configuration can do for an epilogue beside its elements: pooled and upsampled stores, stored moments.

#include <optional>

#include "families/sm90/problem.hpp"
#include "families/sm90_conv/config.hpp"

namespace unisono::families::sm90_conv {

/// Whether 16 consecutive pixels are always a part of one image row, or whole image rows.
constexpr bool pixels_divide_image_rows(std::int64_t width) { return width % 16 == 0 || 16 % width == 0; }

/// Why a kernel of this configuration cannot pool or upsample; nothing: it can.
std::optional<plan::Refusal> refuse_resampling(const ConvConfig& config, const sm90::ConvProblem& problem);

/// Why a kernel of this configuration cannot multiply as many products as the contraction has; nothing: it can.
std::optional<plan::Refusal> refuse_products(const ConvConfig& config, const sm90::ConvProblem& problem);

/// False for what it refuses whatever the tile, unless the caller fixes that.
bool sensible_products(const ConvConfig& config, const sm90::ConvProblem& problem, const sm90::FixedFields& fixed);

/// EpilogueFeatures::moments for a tile of this width: channels that no boundary divides.
int moments_unit(const sm90::ConvProblem& problem, int tile_n);

/// How results of the configuration's tiles are stored.
sm90::Stores stores_for(const ConvConfig& config, const sm90::ConvProblem& problem);

}  // namespace unisono::families::sm90_conv
