#include "random_networks/runs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace unisono::test {
namespace {

constexpr std::size_t guard = 256;
constexpr std::byte untouched{0xa7};

DType output_dtype(const Network& network, const std::string& name) {
  for (const TensorId id : network.outputs)
    if (network[id].name == name) return network[id].dtype;
  return DType::f32;
}

bool is_untouched(std::byte b) { return b == untouched; }

}  // namespace

Outputs run_guarded(const NetworkExecutable& executable, const std::map<std::string, CaseTensor>& inputs,
                    std::byte poison) {
  std::map<std::string, std::vector<std::int64_t>> shapes;
  std::map<std::string, ConstTensorView> in;
  const std::map<std::string, CaseTensor> copies = inputs;
  for (const auto& [name, t] : copies) {
    shapes[name] = t.shape;
    in[name] = {t.bytes.data(), t.dtype, t.shape, {}};
  }
  Outputs result;
  std::map<std::string, std::vector<std::byte>> guarded;
  std::map<std::string, TensorView> out;
  for (const auto& [name, shape] : executable.output_shapes(shapes)) {
    CaseTensor& t = result.tensors[name];
    t.shape = shape;
    t.dtype = output_dtype(executable.network(), name);
    t.bytes.resize(static_cast<std::size_t>(element_count(shape)) * size_of(t.dtype), poison);
    std::vector<std::byte>& memory = guarded[name];
    memory.assign(guard, untouched);
    memory.insert(memory.end(), t.bytes.begin(), t.bytes.end());
    memory.insert(memory.end(), guard, untouched);
    out[name] = {memory.data() + guard, t.dtype, shape, {}};
  }
  executable.run(in, out);
  for (auto& [name, memory] : guarded) {
    const auto begin = memory.begin() + guard, end = memory.end() - guard;
    if (!std::all_of(memory.begin(), begin, is_untouched) || !std::all_of(end, memory.end(), is_untouched))
      result.trouble = fmt::format("memory beside output '{}' was written", name);
    result.tensors[name].bytes.assign(begin, end);
  }
  for (const auto& [name, t] : inputs)
    if (t.bytes != copies.at(name).bytes) result.trouble = fmt::format("input '{}' was written", name);
  return result;
}

std::string bits_differ(const Outputs& a, const Outputs& b) {
  for (const auto& [name, t] : a.tensors)
    if (b.tensors.at(name).bytes != t.bytes)
      return fmt::format("output '{}' has other bits than in the first run", name);
  return "";
}

}  // namespace unisono::test
