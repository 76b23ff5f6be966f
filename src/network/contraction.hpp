#pragma once
/// Contractions of a network's operators, once extents are numbers.

#include <vector>

#include "network/storage.hpp"
#include "unisono/contraction.hpp"
#include "unisono/network.hpp"

namespace unisono::network {

/// The contraction of an operator for tensors of these sizes (by tensor, logical order), in f32.
Contraction contraction_of(const Operator& op, const std::vector<Sizes>& sizes);

}  // namespace unisono::network
