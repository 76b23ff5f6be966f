#pragma once
/// Elements moved as they are: copies between strides, pads and resamples by tables, reshapes, triangles.

#include <cstdint>
#include <span>
#include <vector>

#include "plan/expected.hpp"
#include "tensors/launch.hpp"
#include "tensors/strided.hpp"
#include "unisono/network/index_operators.hpp"

namespace unisono::tensors {

/// Tensors are 0: x, 1: to. Types are equal in memory, unless another is named.

/// to = x, which broadcasts. Their types in memory may differ where the network's is the same.
plan::Expected<Launches> move(const StridedTensor& x, const StridedTensor& to);

/// The place in x of each of the result's along an axis, of which there may be any number; below 0: none.
using PlaceTable = std::vector<int>;
/// to(i, j, …) = x(tables[0][i], tables[1][j], …), or the element `fill`; an axis without a table (empty) reads where
/// it writes.
plan::Expected<Launches> take(const StridedTensor& x, const StridedTensor& to, const std::vector<PlaceTable>& tables,
                              std::uint64_t fill = 0);

/// A number as an element of this type, repeated over eight bytes: take()'s `fill`.
std::uint64_t filled_with(double value, DType memory);

/// The same elements in row-major order of their shapes.
plan::Expected<Launches> reorder(const StridedTensor& x, const StridedTensor& to);

plan::Expected<Launches> triangle(const operators::Triangle& op, const StridedTensor& x, const StridedTensor& to);

/// to = 0, 1, 2, … as i64; tensor 0.
plan::Expected<Launches> range(const StridedTensor& to);

/// The text of all kernels that move words, and the name of one, for words of so many bytes.
KernelText move_kernel(std::string_view name, std::size_t bytes);

}  // namespace unisono::tensors
