#pragma once
/// ONNX import.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "coda/network.hpp"

namespace coda {

/// Bounds on what a file may ask for, so that a hostile one ends in a UserError and not in exhausted memory.
struct OnnxLimits {
  std::uint64_t file_bytes = std::uint64_t{2} << 30;
  std::uint64_t constant_elements = std::uint64_t{1} << 29;  ///< in all constants together
  int nodes = 100'000;
};

/// Reads an ONNX model of opset 11 to 22 (float32; float16, bfloat16 and float64 weights are read as float32).
/// docs/networks.md lists the operators. Throws UserError that names operator, node and opset for one that is not
/// supported, and the place for a file that is damaged.
Network load_onnx(const std::string& path, const OnnxLimits& limits = {});

/// The same from memory; `name` stands for the path in errors.
Network parse_onnx(std::span<const std::byte> model, const std::string& name = "model", const OnnxLimits& limits = {});

}  // namespace coda
