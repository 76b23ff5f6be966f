#pragma once
/// Which operators that run by themselves have a plain kernel.

#include "network/cuda/input.hpp"

namespace unisono::network::gpu {

/// Whether a plain kernel serves an operator that runs by itself, on tensors of f32, or between f32 and the caller's of
/// 16 bits. What is left to emission are extents that kernels cannot count.
bool has_plain_kernel(const PlanningInput& in, const Operator& op);

}  // namespace unisono::network::gpu
