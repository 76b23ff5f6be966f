#pragma once
/// What a head (unisono::Head) adds up of a store.

#include "reference/reference.hpp"
#include "unisono/tensor.hpp"

namespace unisono::reference {

/// The elements of a tensor of rank 1 to 4 as they are, row-major over its shape whatever its strides; without an
/// error.
Values exact(const ConstTensorView& tensor);

/// Sums (rows, channels) of a store's values (rows, n), as they are stored, with the dense filter of `count` channels.
/// An implementation may be off by `accumulate` times the sum of the absolute values of the products, beside what the
/// values are off.
Values head_sums(const Values& store, const ConstTensorView& filter, std::int64_t count, double accumulate);

/// The result of a head, before its store rounds it: of the values of the store that it multiplies, which is of this
/// dtype, as they are before they are rounded. `arguments` has the filter and the operands.
Values head_result(const Head& head, const Contraction& main, const Values& source, DType dtype,
                   const Arguments& arguments, const ErrorModel& model);

}  // namespace unisono::reference
