#pragma once
/// Operators on constants alone: which are computed while importing, and which stay for training.

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "onnx.pb.h"
#include "unisono/network.hpp"

namespace unisono::network::onnx_import {

/// Outputs of the nodes that OnnxOptions::trainable keeps.
std::set<std::string> made_of_parameters(const ::unisono::onnx::GraphProto& graph);
/// Whether gradients lead through an operator of such a node to its inputs.
bool leads_to_parameters(const OperatorKind& kind, const std::vector<NetworkValue>& inputs);

/// An operator on constants alone, computed now; nothing if there are other inputs, too many elements, or more work
/// than elements. `take` is told the elements that are read or written, and the bytes of the result, before memory is
/// taken.
std::optional<NetworkTensor> folded(const Network& network, const OperatorKind& kind,
                                    const std::vector<NetworkValue>& inputs, const std::string& where,
                                    const std::function<void(std::uint64_t work, std::uint64_t bytes)>& take);

}  // namespace unisono::network::onnx_import
