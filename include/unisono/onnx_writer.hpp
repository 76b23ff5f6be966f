#pragma once
/// Writing what was learnt back into an ONNX model.

#include <map>
#include <string>
#include <vector>

namespace unisono {

/// The model in a file with other values of some of its initializers of float32, as the bytes of an ONNX file. All else
/// stays; the initializers must lie in the file itself. Throws UserError that names the initializer for one that the
/// model does not have, that is of another type or in another file, or that has another number of elements.
std::string onnx_with_initializers(const std::string& path, const std::map<std::string, std::vector<float>>& values);

}  // namespace unisono
