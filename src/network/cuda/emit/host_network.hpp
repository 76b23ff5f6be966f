#pragma once
/// The operators of a host step as a network of their own.

#include "network/cuda/decide/region_plan.hpp"
#include "network/cuda/emit/host_places.hpp"

namespace unisono::network::gpu {

/// The step of a group, with places for its tensors.
HostStep host_step(const PlanningInput& in, const NetworkPlan& plan, const HostGroup& group, HostPlaces& places);

}  // namespace unisono::network::gpu
