#pragma once
/// How tensors of a network map to the axes m, n, b of an epilogue graph.
///
/// In memory a tensor of rank 4 is channels last, every other tensor row-major. So the columns (n) are the channels of
/// a rank-4 tensor and the last extent of any other; the rows (m) are all other extents; an image (b) is the first one.

#include <cstdint>
#include <optional>

#include "unisono/contraction.hpp"
#include "unisono/graph.hpp"
#include "unisono/network.hpp"

namespace unisono::network {

/// Axes with which a tensor of shape `operand` broadcasts (NumPy's rules) over values of shape `space`; [m,n] for the
/// very shape, else the coarsest that fit, nothing if none do. `images`: the axis b may be used (a GEMM counts all rows
/// as one image).
std::optional<Axes> axes_of(const Shape& operand, const Shape& space, bool images);

/// Whether `operand` has just these axes over `space`, extent for extent.
bool has_axes(const Shape& operand, const Shape& space, const Axes& axes);

/// Iteration space of an epilogue over a tensor of this shape (numbers only).
Extents extents_of(const std::vector<std::int64_t>& shape);

/// Which axis of a space of this rank has the columns; of rank 0 none.
inline std::size_t column_axis(std::size_t rank) { return rank == 4 ? 1 : rank - 1; }

/// What an axis of the space is made of.
enum class SpaceAxis : std::uint8_t { image, row, column };
SpaceAxis space_axis(std::size_t axis, std::size_t rank);

/// The extent along n.
Dim columns(const Shape& shape);

/// The same of numbers; 1 of rank 0.
inline std::int64_t column_count(const std::vector<std::int64_t>& sizes) {
  return sizes.empty() ? 1 : sizes[column_axis(sizes.size())];
}

/// Whether the order of the elements in memory is that of the logical shape.
bool logical_order(const Shape& shape);

/// Whether the operator gives the elements of its input another shape, in whatever order it walks over them.
bool is_reshape(const OperatorKind& kind);

/// Whether the operator is a reshape that reads and writes images pixel by pixel.
bool walks_pixels(const OperatorKind& kind);

/// Extents or strides in the order in which such a reshape walks over them.
std::vector<std::int64_t> pixel_order(const std::vector<std::int64_t>& of_axes);

}  // namespace unisono::network
