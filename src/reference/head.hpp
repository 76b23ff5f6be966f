#pragma once
/// What a head (unisono/head.hpp) adds up of a store.

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

}  // namespace unisono::reference
