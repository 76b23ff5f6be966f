#pragma once
/// Channels first: the conversion within a launch (kernels/unisono/load/sm90_from_planes.cuh), its parameters and
/// times, and what results in planes cost.

#include <cstdint>
#include <vector>

#include "families/interface/parameters.hpp"
#include "families/sm90_conv/plan.hpp"
#include "plan/as_convolution.hpp"

namespace unisono::families::sm90_conv {

/// The convolution that a kernel runs whose operands it has converted: of so many channels.
plan::ConvTask as_converted(plan::ConvTask task);

/// Fills in the planes, and maps of what they become, which have the arguments' addresses until a workspace is placed.
void fill_converted(Parameter& to, const plan::ConvTask& task, const ConvPlan& plan, const Tensors& tensors);

/// These maps: Family::workspace_maps. None where nothing is converted.
std::vector<Site> converted_maps(const ConvPlan& plan);

/// Fills in the addresses of a workspace that begins at `base`.
void place_converted(ParameterBytes& to, const ConvPlan& plan, std::uint64_t base);

}  // namespace unisono::families::sm90_conv
