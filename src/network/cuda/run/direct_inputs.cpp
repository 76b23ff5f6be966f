#include "network/cuda/run/direct_inputs.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ir/suggest.hpp"
#include "runtime/common/views.hpp"
#include "runtime/cuda/stream.hpp"
#include "unisono/error.hpp"

namespace unisono::network::gpu {

namespace {

bool lies_in_own_order(const ConstTensorView& v) {
  const Sizes own = logical_strides(v.shape, column_count(v.shape));
  for (std::size_t i = 0; i < own.size(); ++i)
    if (v.shape[i] != 1 && v.strides[i] != own[i]) return false;
  return true;
}

}  // namespace

void check_weights(const Network& network, const NetworkOptions& options) {
  std::vector<std::string_view> inputs;
  for (const TensorId id : network.inputs) inputs.push_back(network[id].name);
  for (const std::string& name : options.weights)
    if (std::ranges::find(inputs, name) == inputs.end())
      throw UserError(fmt::format("NetworkOptions::weights has '{}'; the network has the inputs {}{}", name,
                                  fmt::join(inputs, ", "), ir::did_you_mean(ir::nearest(name, inputs))));
}

bool may_be_direct(const FusedNetwork& fused, std::size_t input, const Sizes& sizes, const NetworkOptions& options) {
  const TensorId id = fused.network.inputs[input];
  return options.weights.contains(fused.network[id].name) && element_count(sizes) != 0 &&
         column_count(sizes) % fused.column_multiple(id) == 0;
}

std::vector<bool> may_be_direct(const FusedNetwork& fused, const std::vector<Sizes>& inputs,
                                const NetworkOptions& options) {
  std::vector<bool> direct;
  for (std::size_t i = 0; i < inputs.size(); ++i) direct.push_back(may_be_direct(fused, i, inputs[i], options));
  return direct;
}

DType type_of_input(const FusedNetwork& fused, std::size_t input, const NetworkOptions& options) {
  const TensorId id = fused.network.inputs[input];
  return fused.own_type[id] ? fused.network[id].dtype : options.precision;
}

std::vector<bool> direct_inputs(const FusedNetwork& fused, const CallerViews& inputs, const NetworkOptions& options) {
  std::vector<Sizes> sizes;
  for (const ConstTensorView& v : inputs) sizes.push_back(v.shape);
  std::vector<bool> direct = may_be_direct(fused, sizes, options);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    direct[i] = direct[i] && inputs[i].dtype == type_of_input(fused, i, options) &&
                is_directly_aligned(inputs[i].data) && lies_in_own_order(inputs[i]) &&
                cuda::is_device_memory(options.device_index, inputs[i].data);
  }
  return direct;
}

std::vector<bool> direct_outputs(const FusedNetwork& fused, const CallerViews& views,
                                 const std::set<std::string>& names, int device_index) {
  const Network& n = fused.network;
  const auto outputs = views.begin() + static_cast<std::ptrdiff_t>(n.inputs.size());
  std::vector<bool> direct;
  for (std::size_t i = 0; i < n.outputs.size(); ++i) {
    const TensorId id = n.outputs[i];
    const ConstTensorView& v = outputs[static_cast<std::ptrdiff_t>(i)];
    const bool is_one = names.contains(n[id].name) && fused.own_type[id] && n[id].dtype == DType::f32 &&
                        v.dtype == DType::f32 && element_count(v.shape) != 0 && is_directly_aligned(v.data) &&
                        lies_in_own_order(v);
    direct.push_back(is_one && cuda::is_device_memory(device_index, v.data) &&
                     std::none_of(views.begin(), outputs, [&](const ConstTensorView& x) {
                       return runtime::may_overlap(v, v.strides, x, x.strides);
                     }));
  }
  return direct;
}

std::vector<bool> without_written(std::vector<bool> direct, const CallerViews& views) {
  const auto outputs = views.begin() + static_cast<std::ptrdiff_t>(direct.size());
  for (std::size_t i = 0; i < direct.size(); ++i)
    direct[i] = direct[i] && std::none_of(outputs, views.end(), [&](const ConstTensorView& o) {
                  return runtime::may_overlap(views[i], views[i].strides, o, o.strides);
                });
  return direct;
}

}  // namespace unisono::network::gpu
