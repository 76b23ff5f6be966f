#pragma once
/// A model of an ONNX file in float64, node by node, each as ONNX defines it: the importer takes no part.

#include <map>
#include <memory>
#include <span>
#include <string>

#include "reference/network/answer.hpp"
#include "unisono/tensor.hpp"

namespace unisono::float64 {

class OnnxModel {
 public:
  /// Reads a file; its external data are looked for where the importer does.
  static OnnxModel load(const std::string& path);
  /// The same from memory, without external data.
  static OnnxModel parse(std::span<const std::byte> bytes);

  /// Outputs by name, in the types that the model declares. `inputs` must have those without an initializer, in the
  /// types of the model. Calls `observer` with each node's results, which it may change. Throws UserError for a missing
  /// input and for what a definition forbids, and Unsupported for an operator without a definition (see
  /// definitions.hpp), for types that networks lack, and for integers that no f64 is.
  Tensors64 evaluate(const Tensors64& inputs, const ResultObserver& observer = {}) const;

  struct File;

 private:
  explicit OnnxModel(std::shared_ptr<const File> file) : file_(std::move(file)) {}
  std::shared_ptr<const File> file_;
};

}  // namespace unisono::float64
