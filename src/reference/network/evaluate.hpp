#pragma once
/// The float64 reference of a whole network, operator by operator: no fuser, no passes, no backend takes part.

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "reference/network/tensor64.hpp"
#include "unisono/network.hpp"

namespace unisono::float64 {

/// Called after each operator with its result, which it may change before others read it.
using TensorObserver = std::function<void(const Operator& op, Tensor64& result)>;

/// What an implementation rounds beside the arithmetic of f32.
struct Rounding {
  DType tensors = DType::f32;      ///< type of inputs, of constants that are no vectors, and of stored tensors
  std::set<std::string> stored{};  ///< names of tensors that operators make
  std::set<std::string> exact{};   ///< names of tensors that are not rounded, inputs among them
  std::set<std::string> summed{};  ///< constants: filters of which taps may be added before they are rounded
  bool fast = false;               ///< elementwise functions in their forms for 16-bit outputs: docs/numerics.md
};

/// That of a network compiled with these options: what its regions write, but where that has 32 bits and so has every
/// reader, and what a normalisation reads, which may wait in 16 bits.
Rounding rounding_of(const NetworkExecutable& network, const NetworkOptions& options);

/// Outputs of the network by name. With a rounding, bounds of results grow by what it may do to them, and weights of
/// contractions are rounded. Throws UserError for a missing input or a wrong shape.
Tensors64 evaluate_network(const Network& network, const Tensors64& inputs, const TensorObserver& observer = {},
                           const Rounding& rounding = {});

}  // namespace unisono::float64
