#pragma once

#include <string_view>

namespace unisono::network::onnx_import {

/// The contents of schemas.txt.
std::string_view schema_text();

}  // namespace unisono::network::onnx_import
