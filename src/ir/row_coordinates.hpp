#pragma once
/// Operands that do not have all coordinates of a row in memory (RowCoordinates), and those that lie as strides say.

#include <cstdint>
#include <string>
#include <vector>

#include "unisono/contraction.hpp"
#include "unisono/graph.hpp"

namespace unisono::ir {

/// Whether an operand with these axes can have a default: all but [m,n].
bool takes_default(const Axes& axes);

/// Whether an operand with these axes can have those coordinates of its rows; only [m] and [m,n] have a choice.
bool takes_rows(const Axes& axes, RowCoordinates rows);

/// Whether an operand, or a store, with these axes can be strided: [m] and [m,n].
bool takes_strides(const Axes& axes);

/// "[h,w]", "[h,n]", "[m,n]".
std::string operand_axes(const Axes& axes, RowCoordinates rows);

/// Shape in memory of an operand, but of one [m,n] with all coordinates, whose shape is the output's.
std::vector<std::int64_t> operand_shape(const Axes& axes, RowCoordinates rows, const Extents& extents);

/// Elements from one image, image row, pixel and column to the next. 0: the same element.
struct RowSteps {
  std::int64_t image = 0, row = 0, pixel = 0, column = 0;
};

/// The steps of an operand of operand_shape() with these strides.
RowSteps operand_steps(const Axes& axes, RowCoordinates rows, const std::vector<std::int64_t>& strides,
                       const Extents& extents);

}  // namespace unisono::ir
