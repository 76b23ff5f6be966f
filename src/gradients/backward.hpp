#pragma once
/// The chain rule over a network.

#include <optional>
#include <vector>

#include "unisono/network.hpp"

namespace unisono::autodiff {

/// Two factors of all gradients: of the loss's, and of those that leave the operators of the loss, which are behind the
/// first `operators` and `tensors`.
struct GradientScale {
  NetworkValue loss, network;
  std::size_t operators, tensors;
};

/// Appends the gradients of `loss`, a scalar, with respect to these tensors of the builder's network, and returns them:
/// multiplied by `scale`, if there is one.
/// Gradients of a tensor that several operators read are added in the reverse order of these operators. Throws
/// Unsupported, see derivative().
std::vector<NetworkValue> backward(NetworkBuilder& net, NetworkValue loss, const std::optional<GradientScale>& scale,
                                   const std::vector<NetworkValue>& of);

}  // namespace unisono::autodiff
