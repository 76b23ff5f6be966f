#pragma once
/// Rules for the leaves of a graph: their axes, dtypes and defaults.

#include <optional>

#include "unisono/graph.hpp"

namespace unisono::ir {

inline constexpr int most_groups = 1 << 20;  ///< into which columns fall

/// Axes that an operand can have: [], [b], [m], [n], [b,n], [m,n], and of groups of columns [g4], [b,g4].
bool is_operand_axes(const Axes& axes);

/// dtype of an operand's value: f64, i32 and bool are used as they are stored; every other type is loaded as f32.
DType operand_dtype(std::optional<DType> storage);

/// True if an operand stored as `storage` can have that default: any number for floats, else one of its own values.
bool is_default_of(double value, std::optional<DType> storage);

/// Axes along which a coordinate varies: [n], [b], and [m] for m, h and w.
Axes coordinate_axes(Coordinate c);

}  // namespace unisono::ir
