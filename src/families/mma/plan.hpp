#pragma once
/// A plan of this family: what its kernel is compiled for, and the tiles of a launch.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "families/interface/plan.hpp"
#include "plan/resampling.hpp"
#include "unisono/dtype.hpp"

namespace unisono::families::mma {

/// What a CTA computes at once.
struct Tiling {
  int m = 128, n = 128, k = 64;  ///< rows, channels; elements of a k-step
  int warpgroups = 1, stages = 3;

  constexpr int threads() const { return 128 * warpgroups; }
  constexpr int blocks() const { return m / warpgroups / 64; }  ///< a warpgroup's, 64 rows each
  constexpr int sums() const { return blocks() * n / 2; }       ///< a thread's, of a product
  bool operator==(const Tiling&) const = default;
};

/// How an operand is loaded.
struct Operand {
  bool columns = false;  ///< neighbours in memory are rows, and not k
  int copy = 16;         ///< bytes that copies take
};

/// How tiles are normalised; as `mode=` of a plan's text names it.
enum class Mode : std::uint8_t { none, general, rows, resident, streamed };
/// Whether CTAs exchange an image's statistics.
constexpr bool exchanges(Mode mode) { return mode == Mode::resident || mode == Mode::streamed; }

/// What a kernel is compiled for.
struct Config {
  DType element{};  ///< bf16, f16 or tf32
  Tiling tiling;
  Operand image, filter;
  bool pixels = false;   ///< the image is read by its filter's taps; else it is a matrix
  bool volumes = false;  ///< the pixels are a volume's
  bool phases = false;   ///< it is a transposed convolution
  Mode mode = Mode::none;
  bool wide = false, meets = false;          ///< several tiles across reduce rows; and wait for one another
  bool spills = false, spills_rows = false;  ///< more than are in flight do, in memory; those of a row, too
  int products = 1;                          ///< 2: a dual product
  int unit = 1;                              ///< channels whose statistics are exchanged together
  plan::Resampling resampling;               ///< what is made of the main store
  int together = 1;                          ///< channels that exist together and lie aligned: 8, 2 or 1
  int group = 0;                             ///< rows of tiles that follow one another across the channels; 0: one
  int parts = 1;                             ///< CTAs that share a tile, each with a part of its k
  int ctas_of_sm = 1;                        ///< that its registers and shared memory leave room for

  int sums() const { return products * tiling.sums(); }  ///< a thread's
  std::size_t element_bytes() const { return size_of(element); }
};

struct MmaPlan final : Plan {
  Config config;
  int images = 0, rows = 0, tiles_m = 0, tiles_n = 0, tiles = 0;
  int at_once = 1;        ///< tiles that wait for one another
  int segment_slots = 1;  ///< exchange/statistics_exchange.cuh
  struct Workspace {
    std::size_t exits = 0, shares = 0, flags = 0, slots = 0, segments = 0, waiting = 0, partials = 0, results = 0,
                rows = 0,
                counters = 0;  ///< offsets in bytes
  } workspace;

  int slots() const { return tiles_m * config.tiling.warpgroups; }  ///< warpgroups' shares of an image
  int segments() const { return (slots() + segment_slots - 1) / segment_slots; }
};

std::string_view to_string(Mode mode);

/// What an override may fix of these plans.
std::span<const plan::PlanField> plan_fields();

}  // namespace unisono::families::mma
