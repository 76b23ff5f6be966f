#pragma once
/// How a tensor in memory is read as an operand of an epilogue graph, or written as a store of it. The steps of the CPU
/// and the launches of a GPU both take their views from here.

#include <cstdint>
#include <optional>
#include <vector>

#include "network/regions.hpp"
#include "network/sizes.hpp"
#include "unisono/contraction.hpp"
#include "unisono/graph.hpp"

namespace unisono::network {

/// A tensor seen from an iteration space of images, rows (pixels) of an image, and columns (channels). Strides are in
/// elements; along an axis of more than one element, 0 means that all of them read the same element.
struct OperandView {
  std::int64_t images = 1, rows = 1, columns = 1;  ///< extents of the space; `rows` counts those of one image
  std::int64_t image = 0, row = 0, column = 0;     ///< strides

  std::int64_t at(std::int64_t i, std::int64_t r, std::int64_t c) const { return i * image + r * row + c * column; }
  /// Whether rows, counted over all images, are equally far apart; then pitch() is how far.
  bool is_uniform() const { return images == 1 || rows == 1 || image == rows * row; }
  std::int64_t pitch() const { return rows == 1 ? image : row; }
  /// Whether the tensor has the same element wherever values of these axes are the same.
  bool has(const Axes& axes) const;
  /// Whether one element is repeated along one of these axes: a symbol turned out to be 1, and the space is wider.
  bool repeats(const Axes& axes) const;
};

/// The view of a tensor of shape `operand`, which broadcasts by NumPy's rules over values of shape `space`. `strides`
/// are those along its logical axes. Nothing if it does not broadcast, or if the rows of an image are not equally far
/// apart.
std::optional<OperandView> broadcast_view(const Sizes& operand, const Sizes& strides, const Sizes& space);

/// The view of an operand of a region whose values have the shape `space`: broadcast_view(), or one element a column.
/// Nothing also if the tensor varies along an axis that the operand lacks.
std::optional<OperandView> operand_view(const RegionOperand& operand, const Sizes& sizes, const Sizes& strides,
                                        const Sizes& space);

/// Shape and strides of an argument of a CPU executable.
struct ArgumentView {
  std::vector<std::int64_t> shape, strides;
};

/// The view as an argument with these axes over `space`, which has as many rows and columns in all. `matrix`: tensors
/// with axes [m,n] are (images, rows, columns) instead of (images, height, width, columns).
ArgumentView argument_view(const OperandView& view, const Axes& axes, const Extents& space, bool matrix);

/// The view as rows of neighbouring columns, as kernels of a GPU read them.
struct PitchedRows {
  std::int64_t rows = 1, columns = 1;
  std::int64_t pitch = 1;  ///< elements from row to row
};

/// Nothing if columns do not lie together or rows are not equally far apart.
std::optional<PitchedRows> pitched_rows(const OperandView& view, const Axes& axes);

/// Rows and columns of an operand with these axes, whatever its memory.
PitchedRows packed_rows(const OperandView& view, const Axes& axes, std::int64_t padded_columns);

/// The operand's elements as packed_rows() has them, with zeros after the last column.
std::vector<float> packed_elements(const float* elements, const OperandView& view, const Axes& axes,
                                   std::int64_t padded_columns);

}  // namespace unisono::network
