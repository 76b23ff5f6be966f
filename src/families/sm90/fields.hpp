#pragma once
/// Fields of the plans for sm_90a, as text and with their types.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "families/interface/override.hpp"
#include "unisono/dtype.hpp"

namespace unisono::families::sm90 {

/// rows: over the channels of each pixel, all of which are in one tile; resident and streamed exchange statistics
/// between CTAs; general: none of these, Epilogue::general.
enum class NormMode : std::uint8_t { none, resident, streamed, rows, general };

/// Whether CTAs exchange statistics, through a workspace.
constexpr bool exchanges(NormMode mode) { return mode == NormMode::resident || mode == NormMode::streamed; }
/// Whether a tile's elements wait for statistics.
constexpr bool normalises(NormMode mode) { return exchanges(mode) || mode == NormMode::rows; }

/// How the image comes to shared memory: by TMA as halo tiles or im2col tiles, by ordinary loads, or by im2col in
/// shared memory.
enum class Load : std::uint8_t { halo, im2col, gather, im2col_smem, depthwise };

/// How consumer warpgroups work on tiles. cooperative: two share a tile; pingpong: two have a tile each and take turns
/// at the main loop; pingpong2: two cooperative pairs take turns.
enum class Order : std::uint8_t { cooperative, pingpong, pingpong2 };

/// Consumer warpgroups that share a tile, and consumer groups, which take turns.
constexpr int warpgroups_of(Order order) { return order == Order::pingpong ? 1 : 2; }
constexpr int consumer_groups_of(Order order) { return order == Order::cooperative ? 1 : 2; }

/// The type in which tiles wait for their image's statistics.
enum class Spill : std::uint8_t { bf16, f16, f32 };
constexpr DType dtype_of(Spill s) { return s == Spill::bf16 ? DType::bf16 : s == Spill::f16 ? DType::f16 : DType::f32; }

/// The order of an image's tiles. rows: all channels of some pixels are neighbours; channels: all pixels of some
/// channels.
enum class Raster : std::uint8_t { rows, channels };

/// How much of an image channels first is converted ahead of all tiles. balanced: as much as tiles would otherwise wait
/// for, at the rate of the warps that convert beside them; first: what the first tiles read; all: the whole image.
enum class Ahead : std::uint8_t { balanced, first, all };

/// Where the lanes of a general epilogue have their elements: two neighbouring channels as the matrix instruction left
/// them in registers, or eight from shared memory.
enum class Elements : std::uint8_t { registers, shared };

struct FixedFields {
  std::optional<int> tile_m, tile_n, tile_k, cluster_m, cluster_n, stages, stages_a, store_buffers, unit, group, fetch;
  std::optional<Order> order;
  std::optional<std::array<int, 3>> thread;  ///< lines, pixels, channels
  std::optional<Load> load;
  std::optional<bool> split, swap, stationary;
  std::optional<NormMode> mode;
  std::optional<Spill> spill;
  std::optional<Raster> raster;
  std::optional<bool> hints;     ///< L2 eviction priorities
  std::optional<bool> deferred;  ///< rows that meet do so after the next tile's main loop
  std::optional<Elements> elements;
  std::optional<Ahead> ahead;
};

/// What an override may fix of these plans.
std::span<const plan::PlanField> plan_fields();

/// Those of them that are fixed, with their types; other fields and values are no concern of these plans. Throws
/// UserError for stages of what is not loaded.
FixedFields resolve(const PlanOverride& fixed);

std::string_view to_string(Order order);
std::string_view to_string(NormMode mode);
std::string_view to_string(Ahead ahead);

}  // namespace unisono::families::sm90
