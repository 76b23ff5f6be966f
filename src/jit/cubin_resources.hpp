#pragma once
/// What the assembler says of each kernel: from the cubin itself, and from its log what the cubin lacks.

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "jit/request.hpp"

namespace unisono::jit {

/// Kernels by name with registers, stack and static shared memory; spills are 0, because a cubin does not tell them.
/// Anything that is no well-formed cubin gives no kernels.
std::map<std::string, Resources> resources_of_cubin(std::span<const std::byte> cubin);

/// What `ptxas -v` prints of a kernel and the cubin does not hold. Other lines are passed over.
struct Printed {
  std::size_t spill_stores = 0, spill_loads = 0, shared = 0;  ///< bytes
  std::size_t injected_waits = 0;
};
std::map<std::string, Printed> printed_resources(std::string_view log);

/// Both.
std::map<std::string, Resources> resources_of(std::span<const std::byte> cubin, std::string_view log);

}  // namespace unisono::jit
