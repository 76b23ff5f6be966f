#include "network/onnx/islands.hpp"

#include <algorithm>

namespace unisono::network::onnx_import {

void Islands::add_short(const Network& so_far, TensorId id) {
  if (so_far[id].dtype != DType::f32 || so_far[id].is_constant()) return;
  short_.insert(id);
  kept_.erase(id);
}

void Islands::add_node(const Network& so_far, std::span<const TensorId> inputs, TensorId first) {
  const auto belongs = [&](TensorId id) { return short_.contains(id) || kept_.contains(id); };
  if (std::ranges::none_of(inputs, belongs)) return;
  for (TensorId id = first; id < so_far.tensors.size(); ++id)
    if (so_far[id].dtype == DType::f32 && !so_far[id].is_constant() && !short_.contains(id)) kept_.insert(id);
}

void Islands::add_short_node(const Network& so_far, DType type, TensorId first) {
  for (TensorId id = first; id < so_far.tensors.size(); ++id)
    if (so_far[id].dtype == DType::f32 && !so_far[id].is_constant()) types_[id] = type;
}

void Islands::mark(Network& network) const {
  for (const auto& [id, type] : types_) network.tensors[id].short_type = type;
  for (const TensorId id : kept_) network.tensors[id].keeps_f32 = true;
}

}  // namespace unisono::network::onnx_import
