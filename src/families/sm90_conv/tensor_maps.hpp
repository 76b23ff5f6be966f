#pragma once
/// What TMA needs to know of a convolution's tensors; docs/cuda-backend.md tells why the boxes are as they
/// are. Needs no driver.

#include <cstdint>

#include "families/interface/parameters.hpp"
#include "families/sm90_conv/conv.hpp"
#include "unisono/contraction.hpp"

namespace unisono::families::sm90_conv {

struct MapShapes {
  MapShape activation;  ///< X (N,H,W,C); A (k, m)
  MapShape filter;      ///< W (K,R·S,C); B
  MapShape output;      ///< Y; of the second store too; by phases with_phase() has theirs
};

/// Shapes of operands and outputs that need no map are of no use.
MapShapes map_shapes(const plan::ConvTask& task, const ConvPlan& plan);

/// The window of im2col in shared memory: elements of an image row by image rows, or channels by pixels by image rows.
MapShape window_shape(const Conv2d& conv, const ConvConfig& config, bool whole_lines);

/// The same map of a tensor whose innermost rows lie `pitch` elements apart; 0: together.
MapShape with_pitch(MapShape map, std::int64_t pitch);

/// For an output (K, Q, P, N): the tensor of twice the image rows and pixels, `pitch` elements apart; 0: dense.
/// A tensor of 32 bits an element, each as two halves.
MapShape halves(MapShape m);
MapShape doubled(MapShape output, std::int64_t pitch);

/// The pixels (2y + phase / 2, 2x + phase % 2) of such a tensor, as a tensor of their own.
MapShape with_phase(MapShape map, int phase);
/// Where its first element lies, in bytes from the output's.
std::uint64_t phase_offset(const MapShape& map, int phase);

}  // namespace unisono::families::sm90_conv
