#pragma once
/// What TMA needs to know of a convolution's tensors; docs/cuda-backend.md tells why the boxes are as they
/// are. Needs no driver.

#include <array>
#include <cstdint>

#include "families/sm90_conv/conv.hpp"
#include "unisono/contraction.hpp"

namespace unisono::cuda {

/// A tensor map before it is encoded. Extents are listed innermost first.
struct MapShape {
  int rank = 0;
  std::array<std::uint64_t, 4> extents{};  ///< elements
  std::array<std::uint64_t, 3> strides{};  ///< bytes; of the extents from the second on
  // A box of a tiled map:
  std::array<std::uint32_t, 4> box{};
  // Or, of an im2col map, `channels` of `pixels` consecutive positions of the filter's corner; the corners bound where
  // that may stand, {w, h}, relative to the first and the last pixel of an image.
  bool im2col = false;
  std::array<int, 2> lower{}, upper{};
  std::uint32_t channels = 0, pixels = 0;
  std::array<std::uint32_t, 4> steps{1, 1, 1, 1};
  std::uint64_t element_bytes = 2;
  int swizzle_bytes = 0;  ///< of a row of the box: 128, 64, 32, or less for none

  bool operator==(const MapShape&) const = default;
};

struct MapShapes {
  MapShape activation;  ///< X (N,H,W,C); A (k, m)
  MapShape filter;      ///< W (K,R·S,C); B
  MapShape output;      ///< Y; of the second store too; by phases with_phase() has theirs
};

/// Shapes of operands and outputs that need no map are of no use.
MapShapes map_shapes(const plan::ConvTask& task, const plan::ConvPlan& plan);

/// The window of im2col in shared memory: elements of an image row by image rows, or channels by pixels by image rows.
MapShape window_shape(const Conv2d& conv, const plan::ConvConfig& config, bool whole_lines);

/// The same map of a tensor whose innermost rows lie `pitch` elements apart; 0: together.
MapShape with_pitch(MapShape map, std::int64_t pitch);

/// For an output (K, Q, P, N): the tensor of twice the image rows and pixels, `pitch` elements apart; 0: dense.
MapShape doubled(MapShape output, std::int64_t pitch);

/// The pixels (2y + phase / 2, 2x + phase % 2) of such a tensor, as a tensor of their own.
MapShape with_phase(MapShape map, int phase);
/// Where its first element lies, in bytes from the output's.
std::uint64_t phase_offset(const MapShape& map, int phase);

/// Channels of a slice, in which a warp stores: Epilogue::kSlice of kernels/unisono/epilogue/sm90_epilogue.cuh.
constexpr int slice_channels(int tile_n) {
  return tile_n % 64 == 0 ? 64 : tile_n % 32 == 0 ? 32 : tile_n % 16 == 0 ? 16 : 8;
}

}  // namespace unisono::cuda
