#pragma once
/// Tensors of the caller's, which kernels find through a table in device memory: a CallerTensor each.

#include "plan/expected.hpp"
#include "tensors/launch.hpp"
#include "tensors/strided.hpp"

namespace unisono::tensors {

/// The elements of the caller's tensor to `to`, or of x to the caller's. The shape has the axes of
/// CallerTensor::strides. A tensor whose value is f32 is one of f32, bf16 or f16 there, as CallerTensor::type says;
/// any other has the type that it has in memory. Tensors are 0: the CallerTensor, 1: `to` or x.
plan::Expected<Launches> enter(const StridedTensor& to);
plan::Expected<Launches> leave(const StridedTensor& x);

/// The text of all these kernels, and the name of one: "enter", for elements of this type.
KernelText caller_kernel(std::string_view name, const ElementType& type);

}  // namespace unisono::tensors
