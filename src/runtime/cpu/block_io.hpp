#pragma once
/// Loading and storing blocks of rows of tensors with axes [m,·], in any layout.

#include "runtime/cpu/binding.hpp"
#include "unisono/contraction.hpp"

namespace unisono::cpu {

/// Rows [first, first + rows) of one image, counted within the image.
struct RowRange {
  std::int64_t image = 0, first = 0, rows = 0;
};

/// The block's elements into dense (rows, cols) lanes, float or double.
void load_block(const VectorUnit& unit, const BoundTensor& from, const Extents& e, const RowRange& block,
                std::int64_t cols, bool wide, void* lanes);

/// Dense (rows, cols) lanes to the tensor, rounded once to its dtype.
void store_block(const VectorUnit& unit, const void* lanes, bool wide, const Extents& e, const RowRange& block,
                 std::int64_t cols, const BoundTensor& to);

}  // namespace unisono::cpu
