#pragma once
/// Outputs that are made of another output, and share memory with nothing.

#include <cstdint>
#include <string>
#include <vector>

#include "unisono/executable.hpp"

namespace unisono::cpu {

/// Strides of the output `name`, in elements, after checking it; `what` is how messages call it. Throws UserError if it
/// is not bound, has another shape or dtype, writes an element twice, or shares memory with any other argument.
std::vector<std::int64_t> checked_made_output(const std::string& name, const std::string& what,
                                              const std::vector<std::int64_t>& shape, DType dtype,
                                              const Arguments& arguments);

}  // namespace unisono::cpu
