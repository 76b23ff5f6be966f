#pragma once
/// Outputs of a model against two references: its operators as ONNX defines them, and the network that the importer
/// made.

#include "reference/network/answer.hpp"
#include "reference/onnx/evaluate.hpp"

namespace unisono::float64 {

/// What the model gives for these inputs by the definitions of its operators.
NetworkAnswer defined_answer(const OnnxModel& model, const Tensors64& inputs, int evaluations = 1);

/// Compares outputs (in logical order) with the definitions, in f32. With a rounding they are compared with the network
/// as imported, whose tensors the rounding is about. Either way the network's own evaluation in float64 is compared
/// with the definitions: elements that differ are `misread`, and name the importer.
std::vector<NetworkAgreement> check_model(const OnnxModel& model, const Network& network, const Tensors64& inputs,
                                          const Tensors64& outputs, const Rounding& rounding = {});

}  // namespace unisono::float64
