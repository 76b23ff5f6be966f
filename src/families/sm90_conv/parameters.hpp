#pragma once
/// The parameter of a convolution's kernel: tensor maps, or what stands in their place, and the workspace's parts.

#include <cstdint>

#include "codegen/codegen.hpp"
#include "families/interface/parameters.hpp"
#include "families/sm90/parameters.hpp"
#include "families/sm90_conv/conv.hpp"
#include "plan/epilogue.hpp"
#include "unisono/params/params.cuh"

namespace unisono::families::sm90_conv {

/// Maps that its kernels read between ConvParams and the visitor's fields.
std::size_t maps_between(const ConvConfig& config);

/// All that does not depend on memory.
ConvGeometry geometry(const plan::ConvTask& task, const ConvPlan& plan);

/// What stands in a map's place where operands are loaded without one. `step`: elements from one product's matrix to
/// the next; 0: dense.
GatheredImage gathered_image(const plan::ConvTask& task, const void* memory, std::int64_t step = 0);
GatheredFilter gathered_filter(const plan::ConvTask& task, const void* memory, std::int64_t step = 0);

/// Fills all that depends on memory but for the workspace. Throws Unsupported for pixels that lie apart where the plan
/// takes dense tensors.
void fill(Parameter& to, const plan::ConvTask& task, const ConvPlan& plan, const plan::Epilogue& epilogue,
          const codegen::Kernel& kernel, const Tensors& tensors);

/// Fills norm, split and launch with addresses inside the workspace that starts at `base`.
void place_workspace(ConvParams& params, const ConvPlan& plan, const plan::Epilogue& epilogue, std::uint64_t base);

}  // namespace unisono::families::sm90_conv
