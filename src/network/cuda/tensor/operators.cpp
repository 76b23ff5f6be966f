#include "network/cuda/tensor/operators.hpp"

#include "network/cuda/tensor/operands.hpp"

namespace unisono::network::gpu {

plan::Expected<TensorLaunches> tensor_launches(const PlanningInput& in, const Operator& op,
                                               const TensorsElsewhere& elsewhere) {
  const TensorOperands operands(in, op, elsewhere);
  for (const auto launches : {launches_of_movement, launches_of_arithmetic, launches_of_indices})
    if (auto made = launches(operands)) return *std::move(made);
  return because("no kernel of a GPU serves it");
}

}  // namespace unisono::network::gpu
