#pragma once
/// Takes out of a model's graph the nodes that are not imported, and those that cannot be without them.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "network/onnx/partial.hpp"
#include "onnx.pb.h"

namespace unisono::network::onnx_import {

/// `refused`: a reason for each node, empty for those that stay. partial.hpp says what becomes of their inputs and
/// results. Leaves the model as it is, and returns nothing, if nothing would be left.
std::vector<LeftOut> take_out_refused(::unisono::onnx::ModelProto& model, const std::vector<std::string>& refused,
                                      const std::map<std::string, std::vector<std::int64_t>>& shapes);

}  // namespace unisono::network::onnx_import
