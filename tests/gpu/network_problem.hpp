#pragma once
/// Networks that run on a GPU in tests, their inputs and outputs in the host's memory, and whether they agree with
/// float64.

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "gpu/networks.hpp"
#include "unisono/network.hpp"

namespace unisono::gpu {

using Sizes = std::vector<std::int64_t>;
using Shapes = std::map<std::string, Sizes>;

struct HostTensor {
  Sizes shape;
  std::vector<float> data;
  ConstTensorView view() const { return {data.data(), DType::f32, shape, {}}; }
  TensorView view() { return {data.data(), DType::f32, shape, {}}; }
};
using HostTensors = std::map<std::string, HostTensor>;

template <class View>
std::map<std::string, View> views(auto& tensors) {
  std::map<std::string, View> all;
  for (auto& [name, t] : tensors) all[name] = t.view();
  return all;
}

NetworkOptions on_gpu(DType precision = DType::bf16);
HostTensors random_inputs(const Shapes& shapes, std::uint64_t seed);
/// Poisoned.
HostTensors outputs_for(const NetworkExecutable& network, const HostTensors& inputs);
HostTensors run(const NetworkExecutable& network, const HostTensors& inputs);
void expect_agreement(const NetworkExecutable& executable, const NetworkOptions& options, const HostTensors& inputs,
                      const HostTensors& outputs);

inline const UNetShape small_unet{.inputs = 3, .classes = 10, .channels = {16, 32}, .groups = 4};

/// What runs, as --precompile compiles it.
struct NetworkCase {
  const char* name;
  std::function<Network()> make;
  Shapes shapes;
  DType precision = DType::bf16;
};
const std::vector<NetworkCase>& network_cases();

}  // namespace unisono::gpu
