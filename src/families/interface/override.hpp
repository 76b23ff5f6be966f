#pragma once
/// Plans as text: the fields that a caller, or a stored row, fixes of one.

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace unisono::plan {

/// rows: over the channels of each pixel, all of which are in one tile; resident and streamed exchange statistics
/// between blocks; general: none of these, Epilogue::general.
enum class NormMode : std::uint8_t { none, resident, streamed, rows, general };

/// Whether blocks exchange statistics, through a workspace.
constexpr bool exchanges(NormMode mode) { return mode == NormMode::resident || mode == NormMode::streamed; }
/// Whether a tile's elements wait for statistics.
constexpr bool normalises(NormMode mode) { return exchanges(mode) || mode == NormMode::rows; }

/// Fields of a plan that the caller fixes, as text: "tile=128x160 cluster=1x2 stages=4 order=pingpong mode=resident
/// load=halo split=on swap=on stationary=off thread=8x4x4". Throws UserError for an unknown key or value (says which
/// are known).
struct Override {
  std::map<std::string, std::string> fields;
  static Override parse(const std::string& text);

  bool operator==(const Override&) const = default;
};

/// As parse() reads it.
std::string to_string(const Override& fixed);

/// How the image comes to shared memory: by TMA as halo tiles or im2col tiles, by ordinary loads, or by im2col in
/// shared memory.
enum class Load : std::uint8_t { halo, im2col, gather, im2col_smem, depthwise };

/// How consumer warpgroups work on tiles. cooperative: two share a tile; pingpong: two have a tile each and take turns
/// at the main loop; pingpong2: two cooperative pairs take turns.
enum class Order : std::uint8_t { cooperative, pingpong, pingpong2 };

/// Consumer warpgroups that share a tile, and consumer groups, which take turns.
constexpr int warpgroups_of(Order order) { return order == Order::pingpong ? 1 : 2; }
constexpr int consumer_groups_of(Order order) { return order == Order::cooperative ? 1 : 2; }

struct FixedFields {
  std::optional<std::string> family;
  std::optional<int> tile_m, tile_n, tile_k, cluster_m, cluster_n, stages, stages_a, store_buffers, unit, group, fetch;
  std::optional<Order> order;
  std::optional<std::array<int, 3>> thread;  ///< lines, pixels, channels
  std::optional<Load> load;
  std::optional<bool> split, swap, stationary;
  std::optional<NormMode> mode;
};

/// The fields with their types. Throws UserError for an unknown key or value.
FixedFields resolve(const Override& fixed);

std::string_view to_string(Order order);
std::string_view to_string(NormMode mode);

}  // namespace unisono::plan
