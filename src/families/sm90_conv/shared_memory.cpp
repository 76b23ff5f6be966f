#include "families/sm90_conv/shared_memory.hpp"

#include <algorithm>

namespace unisono::families::sm90_conv {
namespace {

constexpr std::size_t swizzle_alignment = 1024;
constexpr std::size_t box_columns = 64;  // of an operand (k, n): 128 bytes

std::size_t round_up(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }

bool second_pass(const ConvConfig& c) { return c.mode() == plan::NormMode::streamed; }

std::size_t slice_bytes(const ConvConfig& c) { return 16 * static_cast<std::size_t>(slice_channels(c.tile.n)) * 2; }

/// Slices that the second store's staging buffers of a warp hold.
int side_buffers(const ConvConfig& c, const plan::VisitorShape& v) {
  if (v.side == plan::VisitorShape::Side::before) return std::min(2, stores_per_tile(c));
  return v.side == plan::VisitorShape::Side::after && !second_pass(c) ? c.features.store_buffers : 0;
}

/// Column values of a channel in a consumer warpgroup: the visitor's, then mean (and factor and shift, in whose place
/// their operands wait).
int column_count(const ConvConfig& c, const plan::VisitorShape& v) {
  const int visitors = (normalises(c.mode()) ? v.columns_before : 0) + (second_pass(c) ? 0 : v.columns_after);
  return visitors + (!exchanges(c.mode()) ? 0 : second_pass(c) ? 1 : 1 + std::max(2, v.late_words));
}

/// RowGroups::kBytes: a line of odd length for each of the warpgroup's rows.
std::size_t group_bytes(const ConvConfig& c, const plan::VisitorShape& v) {
  if (v.group_widths.empty()) return 0;
  int places = 0;
  for (const int width : v.group_widths) places += (c.tile.n + width - 1) / width;
  return round_up(std::size_t{4} * (places | 1) * (c.tile.m / c.schedule.warpgroups()), 16);
}

/// Epilogue::kWarpgroupBytes: staging of four warps, columns, moments where the staging is not free,
/// second staging, that of fetched operands.
std::size_t warpgroup_bytes(const ConvConfig& c, const plan::VisitorShape& v) {
  const auto n = static_cast<std::size_t>(c.tile.n);
  const std::size_t slices = slice_bytes(c) * c.features.store_buffers, moments = exchanges(c.mode()) ? n * 8 : 0;
  const std::size_t staging = round_up(std::max(slices, moments), swizzle_alignment);
  const bool apart = second_pass(c) || c.features.moments > 0 ||
                     (exchanges(c.mode()) && c.features.fetch.value_or(0) > 0 && !v.fetches_before);  // moments
  const std::size_t own = 4 * staging + column_count(c, v) * n * 4 + (apart ? 4 * n * 8 : 0);
  const int side = side_buffers(c, v);
  const std::size_t all = side == 0 ? own : round_up(own, swizzle_alignment) + 4 * side * slice_bytes(c);
  const std::size_t folds =
      c.mode() == plan::NormMode::general ? 16 * (v.own_words * n + v.tile_folds + 1) + group_bytes(c, v) : 0;
  if (c.features.fetch.value_or(0) > 1)  // operands beyond the first have buffers of their own
    return round_up(round_up(all, 16) + folds, swizzle_alignment) +
           4 * (*c.features.fetch - 1) * c.features.store_buffers * slice_bytes(c);
  return round_up(all, 16) + folds;
}

/// SecondPass::kTeamBytes: mean, factor, shift, the visitor's columns; the statistics of as many channels as the groups
/// of a tile may have, up to 64 channels wide.
std::size_t team_bytes(const ConvConfig& c, const plan::VisitorShape& v) {
  const auto statistic = static_cast<std::size_t>(4 * c.floats());
  return round_up(static_cast<std::size_t>(3 + v.columns_after) * c.tile.n * 4 + (c.tile.n + 126) * statistic, 16);
}

/// SecondPass::kOwnBytes: four warps' offsets, the kept tile's centres; a barrier of 8 bytes for each slab.
std::size_t own_bytes(const ConvConfig& c) {
  return round_up(std::size_t{5} * c.tile.n * 4 + std::size_t{4} * c.features.store_buffers * 8, 16);
}

}  // namespace

int slice_channels(int tile_n) {
  for (const int slice : {64, 32, 16})
    if (tile_n % slice == 0) return slice;
  return 8;
}

int stores_per_tile(const ConvConfig& config) {
  return config.tile.m / config.schedule.warpgroups() / 64 * (config.tile.n / slice_channels(config.tile.n));
}

std::size_t activation_stage_bytes(const ConvConfig& c) {
  if (c.gathered() && c.gathered()->direct) return 0;
  const HaloTile* halo = c.halo();
  const std::size_t pixels = halo ? halo->pixels(c.tile.m) : c.tile.m, bytes = pixels * c.atom_k() * size_of(c.element);
  return c.atoms() * (halo ? round_up(bytes, swizzle_alignment) : bytes);
}

std::size_t filter_stage_bytes(const ConvConfig& c) {
  if (c.gathered() && c.gathered()->direct) return 0;
  const std::size_t filters = c.columns_b() ? round_up(c.tile.n, box_columns) : c.tile.n;
  return filters * c.tile.k * size_of(c.element);
}

std::size_t shared_bytes(const ConvConfig& c, const plan::VisitorShape& v) {
  const std::size_t consumers = c.schedule.warpgroups() * c.schedule.turns(),
                    stages_a = c.two_rings() ? c.activation_stages() : c.schedule.stages,
                    stages_b = c.window() ? c.window()->steps(c.tile.k) : c.schedule.stages;
  const std::size_t ring = stages_a * activation_stage_bytes(c) + stages_b * filter_stage_bytes(c);
  const std::size_t tail = consumers * round_up(warpgroup_bytes(c, v), swizzle_alignment);
  const std::size_t second = second_pass(c) ? c.schedule.turns() * team_bytes(c, v) + consumers * own_bytes(c) : 0;
  const std::size_t fetched = c.features.fetch.value_or(0) > 0
                                  ? consumers * (c.schedule.swap ? 1 : 4) * c.features.store_buffers
                                  : 0;  // barriers
  const std::size_t by_hand =
      round_up(ring + tail + second + 8 * (2 * c.schedule.stages + 6 + fetched), 16);  // with barriers
  if (c.window())                                                                      // their barriers, windows
    return round_up(by_hand + std::size_t{16} * c.activation_stages(), 128) +
           c.activation_stages() * c.window()->window_bytes(c.tile.m) + swizzle_alignment;
  if (c.gathered())
    return by_hand + c.tile.m * std::size_t{16} + swizzle_alignment;  // a row of 16 bytes for each of the tile's
  const std::size_t barriers = 8 * (2 * c.schedule.stages + (c.two_rings() ? 2 * c.activation_stages() : 0) + 2 +
                                    (second_pass(c) ? 4 : 0) + fetched);
  return ring + tail + second + barriers + swizzle_alignment;
}

}  // namespace unisono::families::sm90_conv
