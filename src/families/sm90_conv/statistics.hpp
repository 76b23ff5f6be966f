#pragma once
/// What a kernel does about statistics: those of a normalisation, and the reductions of a general epilogue.

#include <optional>
#include <variant>

#include "families/sm90/fields.hpp"
#include "families/sm90/problem.hpp"

namespace unisono::families::sm90_conv {

/// Tiles are stored as they are finished.
struct NoStatistics {
  bool operator==(const NoStatistics&) const = default;
};

/// What a message of CTAs holds unless a family says otherwise: count, mean and M2
/// (kernels/unisono/exchange/moments.cuh).
inline constexpr int floats_of_moments = 3;

/// In a message of a problem: those, or a float for each reduction.
inline int floats_exchanged(const sm90::ConvProblem& p) {
  return p.visitor.exchanged > 0 ? p.visitor.exchanged : floats_of_moments;
}

/// Accumulators wait in registers for the statistics of their image, which CTAs exchange.
struct ResidentStatistics {
  int unit = 1;                    ///< channels of a message: a divisor of the group's width and of the tile's
  int floats = floats_of_moments;  ///< in a message: kFloats of the statistic (kernels/unisono/exchange/statistic.cuh)
  bool cut = false;                ///< groups and tiles cut one another: a message is of what both share instead
  bool by_channels = false;  ///< sm90::Raster::channels: a tile waits for the tiles that share its groups' channels
  bool operator==(const ResidentStatistics&) const = default;
};

/// Finished tiles wait for them in shared memory, and in global memory if they have to.
struct StreamedStatistics {
  int unit = 1, floats = floats_of_moments;  ///< as those of ResidentStatistics
  bool cut = false;                          ///< the same
  std::optional<DType> spill = {};           ///< in which they wait; absent: the main store's type, of 16 bits
  bool wide = false;                         ///< the main store has 32 bits an element, which the second pass writes
  bool by_channels = false;                  ///< sm90::Raster::channels: a domain of statistics is a tile's channels
  bool hints = false;                        ///< L2 keeps spilled tiles rather than operands and results

  int planes() const { return spill == DType::f32 ? 2 : 1; }  ///< halves of an element that wait
  bool operator==(const StreamedStatistics&) const = default;
};

/// Each pixel is normalised by itself, over all of its channels: a tile has them, or its row of tiles exchanges what
/// each has of them.
struct RowStatistics {
  bool meets = false;     ///< a row's channels span several tiles
  bool deferred = false;  ///< a tile waits for the others in registers while the next one is multiplied
  bool operator==(const RowStatistics&) const = default;
};

/// Epilogue::general.
struct GeneralReductions {
  bool wide = false;    ///< reductions over a row's channels span several tiles
  bool meets = false;   ///< tiles wait for one another, since elements read what they reduce together
  bool spills = false;  ///< accumulators wait in the workspace for it: an image's tiles are more than are in flight
  bool spills_rows = false;  ///< or a row's are
  bool operator==(const GeneralReductions&) const = default;
};

/// In the order of NormMode.
using Statistics = std::variant<NoStatistics, ResidentStatistics, StreamedStatistics, RowStatistics, GeneralReductions>;

constexpr sm90::NormMode mode_of(const Statistics& s) { return static_cast<sm90::NormMode>(s.index()); }

/// Those of a mode, of units of one channel.
Statistics statistics_of(sm90::NormMode mode);

}  // namespace unisono::families::sm90_conv
