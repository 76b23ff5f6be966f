#pragma once

#include <string_view>

namespace coda::network::onnx_import {

/// The contents of schemas.txt.
std::string_view schema_text();

}  // namespace coda::network::onnx_import
