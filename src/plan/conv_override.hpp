#pragma once
/// The fields of an Override with their types.

#include <array>
#include <optional>

#include "plan/conv.hpp"

namespace unisono::plan {

enum class Load : std::uint8_t { patch, runs, gather, unfold, depthwise };

struct FixedFields {
  std::optional<int> tile_m, tile_n, tile_k, cluster_m, cluster_n, stages, stages_a, store_buffers, unit, group, fetch;
  std::optional<std::pair<int, int>> order;  ///< warpgroups of a tile, turns
  std::optional<std::array<int, 3>> thread;  ///< lines, pixels, channels
  std::optional<Load> load;
  std::optional<bool> split, swap, stationary;
  std::optional<NormMode> mode;
};

/// Throws UserError for an unknown key or value.
FixedFields resolve(const Override& fixed);

/// Warpgroups of a tile and turns of cooperative, pingpong and pairs.
inline constexpr std::pair<int, int> cooperative{2, 1}, pingpong{1, 2}, pairs{2, 2};

std::string_view order_name(const ConvConfig& config);
std::string_view to_string(NormMode mode);

}  // namespace unisono::plan
