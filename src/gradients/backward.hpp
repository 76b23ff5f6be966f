#pragma once
/// The chain rule over a network.

#include <vector>

#include "unisono/network.hpp"

namespace unisono::autodiff {

/// Appends the gradients of `loss`, a scalar, with respect to these tensors of the builder's network, and returns them.
/// Gradients of a tensor that several operators read are added in the reverse order of these operators. Throws
/// Unsupported, see derivative().
std::vector<NetworkValue> backward(NetworkBuilder& net, NetworkValue loss, const std::vector<NetworkValue>& of);

}  // namespace unisono::autodiff
