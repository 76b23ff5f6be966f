#pragma once
/// Shapes, dtypes, strides and alignment of tensors that a kernel reads or writes.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "unisono/contraction.hpp"
#include "unisono/graph.hpp"
#include "unisono/tensor.hpp"

namespace unisono::cuda {

/// Shape in memory of a value with these axes.
std::vector<std::int64_t> shape_of(const Axes& axes, const Contraction& contraction);

/// Checks shape, dtype, strides (dense; `apart`: but for the first, which may leave gaps of multiples of 8 elements)
/// and alignment; `what` names the tensor in the message.
void check_tensor(const ConstTensorView& view, const std::vector<std::int64_t>& shape, DType dtype,
                  std::size_t alignment, const std::string& what, bool apart = false);

/// The same for a tensor whose rows, the last axis, may lie apart: every other axis steps over whole rows. Returns
/// elements from row to row, or 0 for a dense tensor.
std::int64_t check_rows(const ConstTensorView& view, const std::vector<std::int64_t>& shape, DType dtype,
                        std::size_t alignment, const std::string& what);

}  // namespace unisono::cuda
