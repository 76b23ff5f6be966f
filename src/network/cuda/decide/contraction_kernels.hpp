#pragma once

#include "network/cuda/decide/enlarged_images.hpp"

namespace unisono::network::gpu {

/// A kernel for the contraction and all of its epilogue, with moments of an output if they are wanted and possible; why
/// they are not goes into the plan.
KernelChoice whole_kernel(const PlanningInput& in, NetworkPlan& plan, std::size_t region, Beside beside, Form form);

/// Where a store of the region goes unless the contraction's kernel makes something of it beside: a tensor that only
/// its enlargement reads has no memory but scratch.
PitchedTensor stored_tensor(const PlanningInput& in, const Region& r, TensorId id, Beside beside);

}  // namespace unisono::network::gpu
