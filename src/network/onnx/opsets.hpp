#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace unisono::network::onnx_import {

/// The domain of ONNX's own operators has two names.
inline bool is_standard_domain(std::string_view domain) { return domain.empty() || domain == "ai.onnx"; }

/// That of operators that ONNX has not: own_operators.cpp.
inline bool is_own_domain(std::string_view domain) { return domain == "unisono"; }

/// Throws UserError starting with `what` for an opset that the importer does not read.
void check_opset(std::int64_t opset, const std::string& what);

}  // namespace unisono::network::onnx_import
