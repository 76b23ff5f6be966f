#pragma once
/// Operators that run by themselves, and regions of elementwise ones, by the kernels of src/tensors/.

#include "network/cuda/tensor/operands.hpp"

namespace unisono::network::gpu {

/// The launches of an operator, or why there are none.
plan::Expected<TensorLaunches> tensor_launches(const PlanningInput& in, const Operator& op,
                                               const TensorsElsewhere& elsewhere = {});
/// Those of an image in the element that is resized.
plan::Expected<TensorLaunches> resized(const operators::Resize& r, const WholeTensor& x, const WholeTensor& to);
/// Threads of each output of a convolution: more than one where there are too few outputs to fill the GPU, and four
/// channels for each.
std::uint32_t lanes_of(const plan::Device& device, std::int64_t outputs, std::int64_t channels);

/// The one launch of a region of elementwise operators; refuses others.
plan::Expected<TensorLaunches> tensor_launches(const PlanningInput& in, const Region& r);

}  // namespace unisono::network::gpu
