#pragma once
/// What a model with tensors of 16 bits computes in f32: between its casts to f32 and its casts back.

#include <map>
#include <set>
#include <span>

#include "unisono/network.hpp"

namespace unisono::network::onnx_import {

/// Gathers these tensors while a model is read. In the network, what is of 16 bits has f32 as well, rounded where the
/// model casts, so the types that the model gives are known to the importer alone.
class Islands {
 public:
  /// A tensor of f32 stands for one of 16 bits. Constants do not count.
  void add_short(const Network& so_far, TensorId id);
  /// A node whose results are f32 in the model has made the tensors from `first` on. They are part of an island if the
  /// node reads one, or a tensor of 16 bits, as f32.
  void add_node(const Network& so_far, std::span<const TensorId> inputs, TensorId first);
  /// A node whose results are of this 16-bit type in the model has made the tensors from `first` on.
  void add_short_node(const Network& so_far, DType type, TensorId first);
  /// Sets NetworkTensor::keeps_f32 and NetworkTensor::short_type.
  void mark(Network& network) const;

 private:
  std::set<TensorId> short_, kept_;
  std::map<TensorId, DType> types_;
};

}  // namespace unisono::network::onnx_import
