#pragma once
/// A plan of this family: what its kernel is compiled for, and the tiles of a launch.

#include <cstddef>
#include <span>
#include <string_view>

#include "families/interface/plan.hpp"
#include "unisono/dtype.hpp"

namespace unisono::families::plain {

/// What a CTA computes at once.
struct Tiling {
  int tile_m = 64, tile_n = 64, tile_k = 16;  ///< rows, channels; taps times channels of a step
  int each_m = 4, each_n = 4;                 ///< sums of a thread
  bool direct = false;                        ///< no tiles of operands: a thread reads its own through L1

  constexpr int threads() const { return tile_m / each_m * (tile_n / each_n); }
  bool operator==(const Tiling&) const = default;
};

/// What a kernel is compiled for.
struct Config {
  DType image{}, filter{};  ///< in memory: bf16, f16, or tf32 for f32
  int products = 1;         ///< 2: a dual product
  Tiling tiling;
  bool transposed = false;
  bool rows_first = false, columns_first = false;  ///< what lies together in memory: problem.hpp
  bool planes = false;                             ///< channels first
  enum class Mode : std::uint8_t { none, general, normalises, normalises_rows } mode = Mode::none;
};

struct PlainPlan final : Plan {
  Config config;
  int tiles_m = 0, tiles_n = 0, tiles = 0;  ///< in a range of rows; across a group, or all channels; in all
  struct Workspace {
    std::size_t statistics = 0, values = 0;  ///< offsets; the barrier is ahead of them
  } workspace;
};

/// As `mode=` of a plan's text names it.
std::string_view to_string(Config::Mode mode);

/// What an override may fix of these plans.
std::span<const plan::PlanField> plan_fields();

}  // namespace unisono::families::plain
