// An ONNX model: what is fused into what, its shapes, and one run on an image. usage: onnx_model FILE
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include <unisono/unisono.hpp>

namespace {

using Shapes = std::map<std::string, std::vector<std::int64_t>>;

/// The shapes of the inputs, with 1 for every symbol such as "batch".
Shapes input_shapes(const unisono::Network& network) {
  Shapes shapes;
  for (const unisono::TensorId id : network.inputs)
    for (const unisono::Dim& dim : network[id].shape) shapes[network[id].name].push_back(dim.known() ? dim.value() : 1);
  return shapes;
}

std::size_t count(const std::vector<std::int64_t>& shape) {
  return static_cast<std::size_t>(unisono::element_count(shape));
}

int run(const char* path) {
  const unisono::Network model = unisono::load_onnx(path);
  const unisono::NetworkExecutable network = unisono::compile(model);
  std::puts(to_string(network.report()).c_str());

  std::map<std::string, std::vector<float>> memory;
  std::map<std::string, unisono::ConstTensorView> inputs;
  std::map<std::string, unisono::TensorView> outputs;
  const Shapes shapes = input_shapes(model);
  for (const auto& [name, shape] : shapes) {
    memory[name].assign(count(shape), 0.5f);  // a grey image
    inputs[name] = unisono::view(memory[name], shape);
  }
  for (const auto& [name, shape] : network.output_shapes(shapes)) {
    memory[name].assign(count(shape), NAN);
    outputs[name] = unisono::view(memory[name], shape);
  }
  network.run(inputs, outputs);

  bool right = !outputs.empty();
  for (const auto& [name, view] : outputs) {
    float most = -INFINITY;
    for (const float x : memory[name]) most = std::isfinite(x) ? std::max(most, x) : INFINITY;
    std::printf("%s: %zu values, the largest is %g\n", name.c_str(), memory[name].size(), static_cast<double>(most));
    right = right && std::isfinite(most);
  }
  return right ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: onnx_model FILE\n");
    return 2;
  }
  try {
    return run(argv[1]);
  } catch (const unisono::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
