#pragma once
/// ONNX import.

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>

#include "unisono/network.hpp"
#include "unisono/tensor.hpp"

namespace unisono {

/// Bounds on what a file may ask for, so that a hostile one ends in a UserError and not in exhausted memory.
struct OnnxLimits {
  std::uint64_t file_bytes = std::uint64_t{2} << 30;
  std::uint64_t constant_elements = ~std::uint64_t{0};  ///< in all constants together
  int nodes = 100'000;                                  ///< with those of functions, each time they are called
  std::uint64_t constant_bytes = 0;  ///< most that the model's stored constants take; 0: half of the machine's memory
  std::uint64_t computed_bytes = std::uint64_t{1} << 30;  ///< most for those that are computed from them while reading
};

/// How to read a model.
struct OnnxOptions {
  OnnxLimits limits = {};
  /// Inputs that become constants of the network, by name: dense row-major elements of the input's type.
  std::map<std::string, ConstTensorView> constants = {};
  /// Inputs with a default value (an initializer of their name) that the caller gives at each run. All others of them
  /// are constants, as `constants` or the file has them. Other names mean nothing.
  std::set<std::string> given = {};
};

/// Reads an ONNX model of opset 11 to 28, or of an older one where its operators mean the same. float16 and bfloat16
/// tensors are computed in float32 and rounded where the model casts and at its outputs. Data in other files must lie
/// below the model's folder, or below that of the file to which a symbolic link to the model leads. docs/networks.md
/// lists the operators. Throws UserError that names operator, node and opset
/// for one that is not supported, and the place for a file that is damaged.
Network load_onnx(const std::string& path, const OnnxOptions& options = {});
Network load_onnx(const std::string& path, const OnnxLimits& limits);

/// The same from memory; `name` stands for the path in errors. Data in other files are refused.
Network parse_onnx(std::span<const std::byte> model, const std::string& name = "model",
                   const OnnxOptions& options = {});
Network parse_onnx(std::span<const std::byte> model, const std::string& name, const OnnxLimits& limits);

}  // namespace unisono
