#pragma once
/// Definitions by family, one file each. Each is what ONNX's page of the operator says, in plain loops: none goes by
/// what the importer makes of the operator.

#include <span>
#include <vector>

#include "reference/onnx/call.hpp"

namespace unisono::float64 {

std::span<const OnnxDefinition> elementwise_definitions();
std::span<const OnnxDefinition> arithmetic_definitions();
std::span<const OnnxDefinition> shape_definitions();
std::span<const OnnxDefinition> movement_definitions();
std::span<const OnnxDefinition> index_definitions();
std::span<const OnnxDefinition> reduction_definitions();
std::span<const OnnxDefinition> contraction_definitions();
std::span<const OnnxDefinition> pool_definitions();
std::span<const OnnxDefinition> normalisation_definitions();
std::span<const OnnxDefinition> image_definitions();
std::span<const OnnxDefinition> attention_definitions();
std::span<const OnnxDefinition> recurrent_definitions();
std::span<const OnnxDefinition> sequence_definitions();
std::span<const OnnxDefinition> generator_definitions();

/// The operators that have a definition, sorted.
std::vector<std::string_view> defined_operators();

}  // namespace unisono::float64
