#pragma once
/// ONNX models whose initializers are learnt.

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace unisono {

/// The bytes of a model's file in which each parameter is an initializer of its own: exporters write one initializer
/// for several parameters that begin with equal values, and Identity nodes that give it the others' names. These nodes
/// become initializers. Throws UserError for a file that cannot be read, or is no ONNX model.
std::string trainable_onnx(const std::string& path);

/// The model in these bytes with other values of some of its initializers of float32; all else stays. A name may also
/// be that of an initializer that Unsqueeze, Squeeze, Reshape or Flatten nodes have given another shape. `name` stands
/// for the file in errors. Throws UserError that names the initializer for one that the model does not have, that is of
/// another type or in another file, or that has another number of elements.
std::string onnx_with_initializers(std::string_view model, const std::string& name,
                                   const std::map<std::string, std::vector<float>>& values);

}  // namespace unisono
