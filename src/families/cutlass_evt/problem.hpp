#pragma once
/// What this family does not compute, and why.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "families/cutlass_evt/plan.hpp"
#include "families/cutlass_evt/visitors.hpp"
#include "families/interface/family.hpp"

namespace unisono::families::cutlass_evt {

/// Why there are no kernels for a device; nothing: there are.
std::optional<Refusal> refuse_device(const plan::Device& device);

/// Every reason why no plan serves the workload. Atomic reductions are none: a plan may have them.
std::vector<std::string> refuse(const Workload& workload);

/// Why a kernel of this configuration does not serve the workload.
std::optional<Refusal> refuse(const Config& config, const Visitors& visitors, const Workload& workload);

/// Bytes of shared memory that the epilogue takes, and those of one stage of the operands.
std::size_t epilogue_bytes(const Config& config, const Visitors& visitors);
std::size_t stage_bytes(const Config& config);

/// Bytes of global memory that reductions need.
std::size_t workspace_bytes(const Config& config, const Visitors& visitors, const plan::ConvTask& task);

}  // namespace unisono::families::cutlass_evt
