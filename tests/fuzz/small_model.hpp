#pragma once
/// Models that are small enough to be executed by a fuzzer, whatever the file says.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "unisono/onnx.hpp"

namespace unisono::fuzz {

using Shapes = std::map<std::string, std::vector<std::int64_t>>;

inline constexpr double most_elements = 1 << 14;  // of a tensor

inline double known_elements(const Shape& shape) {
  double elements = 1;
  for (const Dim& d : shape) elements *= d.known() ? static_cast<double>(std::max<std::int64_t>(d.value(), 1)) : 1.0;
  return elements;
}

/// Nothing if a tensor is large. Throws as parse_onnx does.
inline std::optional<Network> small_model(const std::uint8_t* data, std::size_t size) {
  const OnnxLimits limits{.file_bytes = 1 << 16, .constant_elements = 1 << 14, .nodes = 40};
  Network network = parse_onnx(std::as_bytes(std::span(data, size)), "fuzz", limits);
  for (const NetworkTensor& t : network.tensors)
    if (known_elements(t.shape) > most_elements) return std::nullopt;
  return network;
}

/// Extents of 1 to 3 in the place of symbols, the same for the same symbol.
inline Shapes input_shapes(const Network& network) {
  Shapes shapes;
  for (const TensorId id : network.inputs) {
    auto& shape = shapes[network[id].name];
    for (const Dim& d : network[id].shape)
      shape.push_back(d.known() ? d.value() : 1 + static_cast<std::int64_t>(d.symbol().back()) % 3);
  }
  return shapes;
}

}  // namespace unisono::fuzz
