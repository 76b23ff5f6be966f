#pragma once
/// The network of a network's gradients, and whether these are its slopes.

#include <cstdint>
#include <map>
#include <string>

#include "onnx/node_case.hpp"
#include "unisono/network.hpp"

namespace unisono::test {

struct GradientCase {
  Network network;                           ///< computes the loss and all gradients
  std::map<std::string, CaseTensor> inputs;  ///< of it: those of the model, moved a little, and the parameters
  std::string wrong;                         ///< how the gradients differ from central differences; empty: they do not
  bool undecided = false;                    ///< a step lies close to a kink: one of the directions says nothing
};

/// The loss is a sum of all f32 outputs, each element by a random factor; its gradients with respect to all inputs and
/// parameters are compared with central differences along random directions, in float64.
GradientCase gradient_case(const Network& network, const std::map<std::string, CaseTensor>& inputs, std::uint64_t seed);

}  // namespace unisono::test
