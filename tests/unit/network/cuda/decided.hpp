#pragma once
/// A small network, fused for a GPU, and what each pass decides about its regions. No GPU is needed.

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "network/cuda/decide/passes.hpp"
#include "network/cuda/run/plan.hpp"
#include "network/steps.hpp"
#include "unisono/error.hpp"
#include "unisono/network.hpp"

namespace unisono::network::gpu {

class Weights {
 public:
  explicit Weights(NetworkBuilder& net) : net_(net) {}
  NetworkValue operator()(std::vector<std::int64_t> shape) {
    std::vector<float> x(static_cast<std::size_t>(element_count(shape)), 0.01f);
    return net_.constant("w" + std::to_string(++count_), Shape(shape.begin(), shape.end()), std::move(x));
  }
  /// A convolution that keeps the size of its image.
  NetworkValue conv(NetworkValue x, std::int64_t to, std::int64_t size = 3) {
    return conv2d(x, (*this)({to, x.shape()[1].value(), size, size}), {.pad = size / 2});
  }

 private:
  NetworkBuilder& net_;
  int count_ = 0;
};

/// All passes up to `last`, for inputs of these sizes, in the order of the network's. `on_host`:
/// PlanningInput::on_host; `filters_ahead`: the same.
class Decided {
 public:
  Decided(const Network& given, std::vector<Sizes> inputs, std::string_view last, std::vector<std::string> on_host = {},
          bool filters_ahead = true)
      : fused_(fuse_for_gpu(given)) {
    input.on_host = std::move(on_host), input.filters_ahead = filters_ahead;
    for (const NetworkTensor& t : fused_.network.tensors) data_.push_back(in_memory_order(t));
    const std::vector<bool> in(fused_.network.inputs.size(), false), out(fused_.network.outputs.size(), false);
    storage_ = plan_storage(fused_, {std::move(inputs), in, out, in, out}, true);
    plan.regions.resize(fused_.regions.size());
    for (const DecisionPass& pass : decision_passes()) {
      pass.run(input, plan);
      if (pass.name == last) return;
    }
    throw InternalError("no pass is called " + std::string(last));
  }

  Decided(const Decided&) = delete;
  Decided& operator=(const Decided&) = delete;

  TensorId id(const std::string& name) const {
    for (TensorId i = 0; i < fused_.network.tensors.size(); ++i)
      if (fused_.network[i].name == name) return i;
    throw InternalError("no tensor is called " + name);
  }
  /// The region whose launches make the tensor.
  const RegionPlan& of(const std::string& name) const {
    for (std::size_t i = 0; i < plan.regions.size(); ++i)
      for (const RegionOutput& o : fused_.regions[i].outputs)
        if (fused_.network[o.tensor].name == name) return plan.regions[i];
    throw InternalError("no region makes " + name);
  }
  const Network& network() const { return fused_.network; }

 private:
  FusedNetwork fused_;
  Constants data_;
  DeviceConstants constants_{fused_.network, data_, DType::bf16};
  StoragePlan storage_;
  plan::Device device_;
  GraphKernelCache graph_kernels_;

 public:
  PlanningInput input{fused_, storage_, device_, constants_, graph_kernels_, DType::bf16, false};
  NetworkPlan plan;
};

}  // namespace unisono::network::gpu
