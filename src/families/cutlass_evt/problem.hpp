#pragma once
/// What this family does not compute, and why.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "families/cutlass_evt/config.hpp"
#include "families/cutlass_evt/visitors.hpp"
#include "families/interface/family.hpp"

namespace unisono::families::cutlass_evt {

/// Whether matrices are multiplied: a convolution of one tap without strides and borders is that, too.
bool is_product(const plan::ConvTask& task);

/// Why there are no kernels for a device; nothing: there are.
std::optional<Refusal> refuse_device(const plan::Device& device);
/// What kernels for a device are compiled for where nothing else is asked for.
Arch usual_arch(const plan::Device& device);
/// Why a device does not run what is compiled for an architecture.
std::optional<Refusal> refuse_arch(Arch arch, const plan::Device& device);
/// Why an architecture's kernels have no such plan: it fixes what they do not have.
std::optional<Refusal> refuse_fields(Arch arch, const PlanOverride& fixed);

/// Every reason why no plan serves the workload. Atomic reductions are none: a plan may have them.
std::vector<std::string> refuse(const Workload& workload);

/// Why a kernel of this configuration does not serve the workload.
std::optional<Refusal> refuse(const Config& config, const Visitors& visitors, const Workload& workload);

/// Bytes of shared memory that the epilogue takes, and those of one stage of the operands.
std::size_t epilogue_bytes(const Config& config, const Visitors& visitors);
std::size_t stage_bytes(const Config& config);

/// Tiles of a launch.
std::int64_t tiles_of(const Config& config, const plan::ConvTask& task);

/// As many stages of the operands as fit, 3 or 4. CUTLASS 2.x chooses none by itself.
int fitting_stages(const Config& config, const Visitors& visitors, const plan::Device& device);

/// Bytes of global memory that reductions need.
std::size_t workspace_bytes(const Config& config, const Visitors& visitors, const plan::ConvTask& task, int sms);

}  // namespace unisono::families::cutlass_evt
