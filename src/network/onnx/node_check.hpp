#pragma once

#include <vector>

#include "network/onnx/importer.hpp"
#include "network/onnx/operator_schema.hpp"

namespace unisono::network::onnx_import {

/// Holds a node against its operator's schema: the names and types of its attributes, the number of its inputs and
/// outputs, and the element types of its inputs as far as they are known. Returns TensorProto's data type of each
/// output, 0 where the schema leaves it open. Throws UserError for what the schema does not have.
std::vector<int> check_node(const NodeReader& node, const OperatorSchema& schema);

}  // namespace unisono::network::onnx_import
