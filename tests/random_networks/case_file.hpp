#pragma once
/// A model with its data in one ONNX file: inputs that have a value (an initializer of the same name) are what the
/// network is run on, and initializers named "expected/<output>" are what another runtime made of them.

#include <filesystem>
#include <map>
#include <string>

#include "onnx/node_case.hpp"

namespace unisono::test {

struct ModelWithData {
  std::string model;  ///< serialised, without the data
  std::map<std::string, CaseTensor> inputs, expected;
};

/// Throws UserError for a file that is no model, or has an input without a value.
ModelWithData read_model_with_data(const std::filesystem::path& path);

}  // namespace unisono::test
