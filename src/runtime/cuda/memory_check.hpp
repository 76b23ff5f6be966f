#pragma once
/// Whether a pointer is memory of the GPU.

#include <span>

#include "runtime/cuda/arguments.hpp"
#include "runtime/cuda/gpu.hpp"

namespace coda::cuda {

/// Throws UserError for the first pointer that is host memory, memory of another GPU, or nothing the driver knows.
void check_memory(const Gpu& gpu, std::span<const NamedPointer> pointers);

}  // namespace coda::cuda
