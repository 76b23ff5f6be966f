#pragma once
/// Operators that run by themselves, and regions of elementwise ones, by the kernels of src/tensors/.

#include "network/cuda/tensor/launches.hpp"

namespace unisono::network::gpu {

/// The launches of an operator, or why there are none.
plan::Expected<TensorLaunches> tensor_launches(const PlanningInput& in, const Operator& op);
/// The one launch of a region of elementwise operators; refuses others.
plan::Expected<TensorLaunches> tensor_launches(const PlanningInput& in, const Region& r);

}  // namespace unisono::network::gpu
