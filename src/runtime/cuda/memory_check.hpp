#pragma once
/// Whether what a caller gives is memory of the GPU, from its first byte to its last.

#include <span>

#include "runtime/cuda/arguments.hpp"
#include "runtime/cuda/gpu.hpp"

namespace unisono::cuda {

/// Throws UserError for the first pointer that is host memory, memory of another GPU, or nothing the driver knows, and
/// for the first whose bytes are more than its allocation has.
void check_memory(const Gpu& gpu, std::span<const NamedPointer> pointers);

/// The latter alone. What counts is the range that the driver names: of cuMemAlloc and managed memory the allocation,
/// of memory that is mapped page by page (cuMemMap) the reserved addresses, of a pool at least the allocation. Where
/// the driver names none, nothing is refused.
void check_range(const Gpu& gpu, const NamedPointer& pointer);

}  // namespace unisono::cuda
