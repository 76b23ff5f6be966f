#pragma once
/// What kernels found wrong with the data of a run.

#include <string>

#include "tensors/parameters.hpp"

namespace unisono::tensors {

/// What the CPU's operators say of the same fault: "index 7 is outside an axis of extent 5"; empty if there is none.
/// The status must be all zero before a run.
std::string text_of(const TensorStatus& status);

}  // namespace unisono::tensors
