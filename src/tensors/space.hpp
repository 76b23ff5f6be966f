#pragma once
/// All kernels of this folder.

#include <vector>

#include "tensors/launch.hpp"

namespace unisono::tensors {

/// Every kernel of this folder, each text once: of elementwise programs one for each operator, as programs of several
/// have the same lines one below another.
std::vector<KernelText> every_kernel();

}  // namespace unisono::tensors
