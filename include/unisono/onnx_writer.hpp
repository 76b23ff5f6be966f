#pragma once
/// Writes ONNX models with trained initializers.

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace unisono {

/// Returns the bytes of a model in which each parameter is a separate initializer. Exporters write one initializer for
/// several parameters with equal first values, and Identity nodes with the others' names; these nodes become
/// initializers. Throws UserError for a file that cannot be read or is not an ONNX model.
std::string trainable_onnx(const std::string& path);

/// Returns the model with other values for some of its float32 initializers. A name may also be that of an initializer
/// after Unsqueeze, Squeeze, Reshape or Flatten nodes. `name` stands for the file in errors. Throws UserError naming
/// the initializer if the model does not have it, or if it has another type or number of elements or is in another
/// file.
std::string onnx_with_initializers(std::string_view model, const std::string& name,
                                   const std::map<std::string, std::vector<float>>& values);

}  // namespace unisono
