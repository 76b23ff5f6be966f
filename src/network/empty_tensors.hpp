#pragma once
/// Which operators take tensors without elements.

#include "unisono/network.hpp"

namespace unisono::network {

/// Whether an input may have an extent of 0: tensors without elements are moved, mapped and reduced; what kernels
/// compute has elements.
bool takes_empty(const OperatorKind& kind);

}  // namespace unisono::network
