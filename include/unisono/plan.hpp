#pragma once
/// Parts of a GPU kernel's plan that the caller fixes, with their types. CompileOptions::plan says the same as text.

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace unisono {

/// Fields that are absent are chosen:
///
///     options.plan_override = {.tile = {{128, 160}}, .schedule = PlanOverride::Schedule::pingpong, .split = false};
///
/// What no kernel has, such as a tile of 0 rows, is a UserError of compile(). What this problem cannot have is
/// Unsupported, with the rule that is broken. docs/plan.md tells what the fields mean.
struct PlanOverride {
  /// A CTA's part of the result.
  struct Tile {
    int rows = 0;      ///< matrix rows: pixels of a convolution
    int channels = 0;  ///< columns of the result
    bool operator==(const Tile&) const = default;
  };
  /// CTAs.
  struct Cluster {
    int rows = 1, channels = 1;
    bool operator==(const Cluster&) const = default;
  };
  /// Shared memory is divided into these.
  struct Stages {
    int filters = 0;  ///< stages of one ring for both operands, if `others` is 0
    int others = 0;   ///< halo tiles, activations beside stationary filters, or im2col_smem's windows
    bool operator==(const Stages&) const = default;
  };
  /// What a thread of a depthwise kernel computes.
  struct Strip {
    int rows = 0, pixels = 0, channels = 0;  ///< rows of the image, each of so many pixels
    bool operator==(const Strip&) const = default;
  };
  /// How consumer warpgroups share the work. cooperative: two share a tile; pingpong: two have a tile each and take
  /// turns at the tensor cores; pingpong2: two cooperative pairs take turns.
  enum class Schedule : std::uint8_t { cooperative, pingpong, pingpong2 };
  /// How the image comes to shared memory; in the text halo, im2col, gather, im2col_smem and depthwise.
  enum class Loads : std::uint8_t { halo_tiles, im2col_tiles, gathered, im2col_smem, depthwise };
  enum class Mode : std::uint8_t { none, resident, streamed, rows, general };  ///< how a kernel normalises
  /// Streamed: the type in which tiles wait for their image's statistics. f32 where the main store is f32.
  enum class Spill : std::uint8_t { bf16, f16, f32 };
  /// Streamed: which tiles of an image follow one another, all channels of some rows or all rows of some channels.
  enum class Raster : std::uint8_t { rows, channels };
  /// General epilogues: where a lane has its elements, two neighbouring channels of a row as the matrix instruction
  /// leaves them, or eight.
  enum class Elements : std::uint8_t { registers, shared };

  /// Channels first, converted by the launch: how much of the image ahead of all tiles. balanced: as much as they would
  /// wait for; first: what the first tiles read.
  enum class Ahead : std::uint8_t { balanced, first, all };

  std::optional<std::string> family = {};  ///< a family of kernels
  std::optional<Tile> tile = {};
  std::optional<int> depth = {};  ///< elements of k in a step
  std::optional<Schedule> schedule = {};
  std::optional<Loads> loads = {};
  std::optional<Stages> stages = {};
  std::optional<int> store_buffers = {};
  std::optional<Cluster> cluster = {};
  std::optional<bool> split = {};       ///< split-K
  std::optional<bool> swap = {};        ///< filters are the first operand of the matrix instruction
  std::optional<bool> stationary = {};  ///< filters stay in shared memory for the whole launch
  std::optional<Mode> mode = {};
  std::optional<int> unit = {};   ///< channels that share one entry of statistics
  std::optional<int> group = {};  ///< rows of tiles that are processed at a time
  std::optional<Spill> spill = {};
  std::optional<Raster> raster = {};
  std::optional<bool> hints = {};  ///< streamed: L2 keeps tiles that wait rather than operands and results
  std::optional<Elements> epilogue = {};
  std::optional<int> fetch = {};  ///< operands [m,n] that TMA loads
  std::optional<Ahead> ahead = {};
  std::optional<Strip> strip = {};
  /// Fields that have no type here, as text, by the key that they have there: those of families that are not built in.
  std::map<std::string, std::string> others = {};

  bool operator==(const PlanOverride&) const = default;
  /// Whether anything is fixed.
  bool any() const { return *this != PlanOverride{}; }
};

/// As CompileOptions::plan: "tile=128x160 order=pingpong split=off".
std::string to_string(const PlanOverride& fixed);

/// What such a text fixes. Throws UserError for an unknown key or value, with those that there are.
PlanOverride parse_plan(const std::string& text);

}  // namespace unisono
