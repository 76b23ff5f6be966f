#pragma once
/// An operator's tensors, and the launches that are made of them.

#include <map>
#include <utility>
#include <vector>

#include "network/cuda/tensor/launches.hpp"

namespace unisono::network::gpu {

/// Tensors without memory in the arena.
using TensorsElsewhere = std::map<TensorId, PitchedTensor>;

class TensorOperands {
 public:
  TensorOperands(const PlanningInput& given, const Operator& of, const TensorsElsewhere& others)
      : in(given), op(of), elsewhere(others) {}

  const PlanningInput& in;
  const Operator& op;
  const TensorsElsewhere& elsewhere;

  const Sizes& sizes(std::size_t input) const { return in.sizes(op.inputs[input]); }
  const Sizes& result_sizes() const { return in.sizes(op.output); }
  /// An input as it lies in memory: constants of f32 in the 16 bits of the network's tensors, unless the result has
  /// more of them.
  WholeTensor input(std::size_t i) const { return read(op.inputs[i]); }
  WholeTensor read(TensorId id) const { return in.fused.own_type[op.output] ? exact(in, id) : tensor(id); }
  /// The same with constants of f32 as they are.
  WholeTensor exact(std::size_t i) const { return exact(in, op.inputs[i]); }
  WholeTensor result() const { return tensor(op.output); }
  WholeTensor tensor(TensorId id) const;

  static WholeTensor whole(const PlanningInput& in, TensorId id);
  static WholeTensor exact(const PlanningInput& in, TensorId id);

  /// Launches whose tensors are these, in this order.
  static plan::Expected<TensorLaunches> over(plan::Expected<tensors::Launches> launches,
                                             const std::vector<WholeTensor>& all);
};

/// By the kind of the operator. Nothing of those that they do not know.
using TensorAnswer = std::optional<plan::Expected<TensorLaunches>>;
TensorAnswer launches_of_movement(const TensorOperands& operands);
TensorAnswer launches_of_arithmetic(const TensorOperands& operands);
TensorAnswer launches_of_indices(const TensorOperands& operands);

}  // namespace unisono::network::gpu
