#pragma once
/// Which operators that run by themselves have another kernel than those for tensors.

#include "network/cuda/input.hpp"

namespace unisono::network::gpu {

/// Whether it serves an operator whose tensors lie in the element. What is left to emission are extents that kernels
/// cannot count.
bool has_plain_kernel(const PlanningInput& in, const Operator& op);

}  // namespace unisono::network::gpu
