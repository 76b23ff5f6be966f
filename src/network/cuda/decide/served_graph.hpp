#pragma once
/// Which epilogue graphs have kernels of their own.

#include <optional>

#include "network/cuda/input.hpp"

namespace unisono::network::gpu {

/// How a region's graph finds its tensors in memory when it stands by itself, over a tensor or over the sums of a
/// contraction (`accumulator`: their type).
codegen::GraphStorage storage_of(const PlanningInput& in, const Region& r, DType accumulator);

/// Why there are no kernels for it. Those that there are have been made then.
std::optional<Refusal> refuse_graph(const PlanningInput& in, const Region& r, DType accumulator);

}  // namespace unisono::network::gpu
