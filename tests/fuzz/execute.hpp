#pragma once
/// A network that a file describes, run on the CPU: within the memory of its tensors, twice to the same bits.

#include <cstdlib>
#include <cstring>

#include "fuzz/small_model.hpp"
#include "unisono/network.hpp"

namespace unisono::fuzz {

inline constexpr std::size_t most_arena = 4 << 20;  // bytes

// Has exactly as many bytes as its elements need, so that a sanitizer detects accesses beyond them
struct RunTensor {
  DType dtype;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;

  RunTensor(DType type, std::vector<std::int64_t> extents, bool filled)
      : dtype(type), shape(std::move(extents)), bytes(static_cast<std::size_t>(element_count(shape)) * size_of(type)) {
    const std::size_t size = size_of(type);
    for (std::size_t i = 0; filled && i * size < bytes.size(); ++i) {
      const auto small = static_cast<float>(static_cast<int>(i % 7) - 3) / 2;
      if (type == DType::f32)
        std::memcpy(bytes.data() + i * size, &small, size);
      else
        bytes[i * size] = static_cast<std::byte>(i % 2);  // an index, a truth value, a tiny number
    }
  }
};

using RunTensors = std::map<std::string, RunTensor>;

inline RunTensors outputs_of(const NetworkExecutable& run, const RunTensors& inputs, const Shapes& shapes) {
  RunTensors outputs;
  std::map<std::string, ConstTensorView> in;
  std::map<std::string, TensorView> out;
  for (const auto& [name, t] : inputs) in[name] = {t.bytes.data(), t.dtype, t.shape, {}};
  const Network& n = run.network();
  for (const TensorId id : n.outputs) outputs.emplace(n[id].name, RunTensor(n[id].dtype, shapes.at(n[id].name), false));
  for (auto& [name, t] : outputs) out[name] = {t.bytes.data(), t.dtype, t.shape, {}};
  run.run(in, out);
  return outputs;
}

/// False if it is too large to be run. Throws UserError or Unsupported as compile() and run() do.
inline bool execute(const Network& network) {
  const Shapes shapes = input_shapes(network);
  const NetworkExecutable run = compile(network, {.threads = 1});
  double elements = 0;
  const Shapes made = run.output_shapes(shapes);
  for (const auto& [name, shape] : made) elements += static_cast<double>(element_count(shape));
  if (elements > most_elements || run.memory(shapes).without_reuse > most_arena) return false;
  RunTensors inputs;
  for (const TensorId id : network.inputs)
    inputs.emplace(network[id].name, RunTensor(network[id].dtype, shapes.at(network[id].name), true));
  const RunTensors first = outputs_of(run, inputs, made), second = outputs_of(run, inputs, made);
  for (const auto& [name, t] : first)
    if (t.bytes != second.at(name).bytes) std::abort();
  return true;
}

}  // namespace unisono::fuzz
