#pragma once
/// How activations reach shared memory. Each way owns what it alone has.

#include <cstdint>
#include <variant>

#include "families/sm90/fields.hpp"
#include "families/sm90/gathering.hpp"
#include "families/sm90/problem.hpp"
#include "families/sm90_conv/im2col_window.hpp"

namespace unisono::families::sm90_conv {

/// TMA loads a tile for every filter tap.
struct Im2colTile {
  enum class Box : std::uint8_t {
    pixels,   ///< im2col loads: consecutive pixels of the output, wherever the tap finds them
    voxels,   ///< the same of volumes, whose planes are walked over like image rows
    rows,     ///< boxes of rows, where each output pixel is a product of its own input pixel
    columns,  ///< boxes of 64 columns of A (k, m)
  };
  Box box = Box::pixels;
  int stages = 0;  ///< for activations beside stationary filters; otherwise a stage holds both operands

  bool operator==(const Im2colTile&) const = default;
};

/// TMA loads a tile of 8 pixels by some image rows with its halo, once for all filter taps.
struct HaloTile {
  int stages = 2;  ///< for halo tiles
  int halo_h = 0;  ///< (R - 1)·dilation image rows
  int halo_w = 0;  ///< (S - 1)·dilation pixels
  /// ConvTask::phases: tiles across the channels are those of each output-parity phase, one phase after another.
  bool by_parity = false;
  bool odd_h = false, odd_w = false;  ///< by_parity: every other phase has a row, or column, of taps less
  bool of_plane = false;  ///< the tile lies in one plane of a volume, and each plane of the filter has its own load

  int pixels(int tile_m) const { return (tile_m / 8 + halo_h) * (8 + halo_w); }
  bool operator==(const HaloTile&) const = default;
};

/// TMA loads windows of the image, of which the producer's warps make im2col rows in shared memory. The pixels of a
/// tile lie as in a halo tile, at any stride, and filters stay in shared memory.
struct ExplicitIm2col {
  Im2colWindow window = {};
  int stages = 2;  ///< for windows

  bool operator==(const ExplicitIm2col&) const = default;
};

/// Gathering: ordinary loads.
using Loader = std::variant<Im2colTile, HaloTile, sm90::Gathering, ExplicitIm2col>;

/// What a field of a plan names.
Loader loader_of(sm90::Load load, const sm90::ConvProblem& problem, const Im2colWindow& window);

/// Fills in what follows from the problem, whatever the plan.
void finish_loader(Loader& loader, const sm90::ConvProblem& problem);

}  // namespace unisono::families::sm90_conv
