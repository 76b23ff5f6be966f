#pragma once
/// Models that are small enough to be executed by a test, whatever the file says.

#include <algorithm>
#include <array>
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
inline constexpr double most_work = 1 << 24;      // of a run, in elements read: about a second with sanitizers

inline double known_elements(const Shape& shape) {
  double elements = 1;
  for (const Dim& d : shape) elements *= d.known() ? static_cast<double>(std::max<std::int64_t>(d.value(), 1)) : 1.0;
  return elements;
}

/// How many elements an operator reads for one that it makes, or for one of its input if it has more of these.
struct ReadsPerElement {
  const Network& network;
  const Operator& op;

  const Shape& input(std::size_t i) const { return network[op.inputs[i]].shape; }
  double filter() const { return known_elements(input(1)) / known_elements({input(1)[0]}); }
  template <class Kernel>
  double window(const Kernel& kernel) const {
    double taps = 1;
    for (const auto k : kernel) taps *= static_cast<double>(k);
    return std::min(taps, known_elements(input(0)));
  }
  double operator()(const operators::Conv2d&) const { return filter(); }
  double operator()(const operators::ConvTranspose2d&) const { return filter(); }
  double operator()(const operators::Conv3d&) const { return filter(); }
  double operator()(const operators::Gemm& g) const {
    return known_elements({g.transpose_a ? input(0)[0] : input(0).back()});
  }
  double operator()(const operators::MatMul&) const { return known_elements({input(0).back()}); }
  double operator()(const operators::Pool2d& p) const { return window(std::array{p.kernel.h, p.kernel.w}); }
  double operator()(const operators::PoolNd& p) const { return window(p.kernel); }
  double operator()(const auto&) const { return static_cast<double>(op.inputs.size()); }
};

inline double known_work(const Network& network) {
  double work = 0;
  for (const Operator& op : network.operators) {
    double elements = known_elements(network[op.output].shape);
    for (const TensorId id : op.inputs) elements = std::max(elements, known_elements(network[id].shape));
    work += elements * std::visit(ReadsPerElement{network, op}, op.kind);
  }
  return work;
}

/// Nothing if a tensor is large, or a run would take long. Throws as parse_onnx does.
inline std::optional<Network> small_model(const std::uint8_t* data, std::size_t size) {
  const OnnxLimits limits{.file_bytes = 1 << 16, .constant_elements = 1 << 14, .nodes = 40};
  Network network = parse_onnx(std::as_bytes(std::span(data, size)), "fuzz", limits);
  for (const NetworkTensor& t : network.tensors)
    if (known_elements(t.shape) > most_elements) return std::nullopt;
  if (known_work(network) > most_work) return std::nullopt;
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
