#pragma once

#include <string_view>

namespace unisono::network::onnx_import {

/// The contents of schemas.txt.
std::string_view schema_text();
/// The contents of function_bodies.txt.
std::string_view function_body_text();

}  // namespace unisono::network::onnx_import
