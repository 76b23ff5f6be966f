#pragma once
/// Operators on constants alone, computed before a network runs.

#include <string>
#include <vector>

#include "unisono/network.hpp"

namespace unisono::network {

/// Whether computing the operator takes a time in proportion to the elements that it reads and writes.
bool is_elementary(const OperatorKind& kind);

/// Type and shape of the operator's result. Throws UserError for inputs that it does not take.
NetworkTensor result_type(const OperatorKind& kind, const std::vector<const NetworkTensor*>& inputs, std::string name);

/// The result of an operator whose inputs are constants of known shapes, itself a constant. One thread computes it.
NetworkTensor computed(const OperatorKind& kind, const std::vector<const NetworkTensor*>& inputs, std::string name);

}  // namespace unisono::network
