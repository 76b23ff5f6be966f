#pragma once
/// Imports ONNX models.

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>

#include "unisono/network.hpp"
#include "unisono/tensor.hpp"

namespace unisono {

/// Limits on what a file may request, so that a hostile file causes a UserError rather than exhausting memory.
struct OnnxLimits {
  std::uint64_t file_bytes = std::uint64_t{2} << 30;
  std::uint64_t constant_elements = ~std::uint64_t{0};  ///< in all constants together
  int nodes = 100'000;                                  ///< including those of functions, at each call
  std::uint64_t constant_bytes = 0;  ///< most for the model's stored constants; 0: half of the machine's memory
  std::uint64_t computed_bytes = std::uint64_t{1} << 30;  ///< most for constants that are computed while reading
};

/// How to read a model.
struct OnnxOptions {
  OnnxLimits limits = {};
  /// Inputs, by name, that become constants of the network: dense row-major elements of the input's type.
  std::map<std::string, ConstTensorView> constants = {};
  /// Inputs with a default value (an initializer of their name) that stay inputs. All others become constants, by
  /// `constants` or the file. Other names are ignored.
  std::set<std::string> given = {};
  /// For training: keeps the operators that make weights and biases of products and recurrent layers by moving and
  /// adding constants, so that gradients reach the initializers.
  bool trainable = false;
};

/// Reads an ONNX model of opset 11 to 28, or of an older opset if its operators mean the same. float16 and bfloat16
/// tensors are computed in float32 and rounded where the model casts and at its outputs. Data in other files must be
/// below the model's folder or, if the model is a symbolic link, below the folder of the file it points to.
/// docs/networks-onnx.md lists the operators. Throws UserError naming operator, node and opset for an unsupported
/// operator, and the place for a damaged file.
Network load_onnx(const std::string& path, const OnnxOptions& options = {});
Network load_onnx(const std::string& path, const OnnxLimits& limits);

/// Reads a model from memory. `name` stands for the path in errors. Data in other files are refused.
Network parse_onnx(std::span<const std::byte> model, const std::string& name = "model",
                   const OnnxOptions& options = {});
Network parse_onnx(std::span<const std::byte> model, const std::string& name, const OnnxLimits& limits);

}  // namespace unisono
