#pragma once

#include "network/cuda/decide/upsampled_images.hpp"

namespace unisono::network::gpu {

/// What a kernel for a contraction and all of its epilogue is asked for.
struct WholeKernel {
  std::size_t region{};
  Beside beside = Beside::nothing;
  std::optional<TensorId> moments = {};  ///< an output of which they are wanted
  Form form = Form::given;
};

/// The same, with the moments that the plan wants of the region.
WholeKernel asked_of(const PlanningInput& in, const NetworkPlan& plan, std::size_t region, Beside beside);

/// It, with moments if it can store them; why it cannot goes into `no_moments`.
KernelChoice whole_kernel(const PlanningInput& in, const NetworkPlan& plan, const WholeKernel& asked,
                          std::optional<Refusal>& no_moments);

/// Where a store of the region goes unless the contraction's kernel makes something of it beside: a tensor that only
/// its upsampling reads has no memory but scratch.
PitchedTensor stored_tensor(const PlanningInput& in, const Region& r, TensorId id, Beside beside);

}  // namespace unisono::network::gpu
