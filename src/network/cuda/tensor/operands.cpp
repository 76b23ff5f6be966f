#include "network/cuda/tensor/operands.hpp"

namespace unisono::network::gpu {

WholeTensor TensorOperands::whole(const PlanningInput& in, TensorId id) {
  return whole_tensor(in.tensor(id), in.sizes(id), in.net()[id].dtype);
}

WholeTensor TensorOperands::tensor(TensorId id) const {
  const auto at = elsewhere.find(id);
  return at == elsewhere.end() ? whole(in, id) : whole_tensor(at->second, in.sizes(id), in.net()[id].dtype);
}

WholeTensor TensorOperands::exact(const PlanningInput& in, TensorId id) {
  return whole_tensor(in.typed_tensor(id), in.sizes(id), in.net()[id].dtype);
}

plan::Expected<TensorLaunches> TensorOperands::over(plan::Expected<tensors::Launches> launches,
                                                    const std::vector<WholeTensor>& all) {
  if (!launches) return std::move(launches).refusal();
  TensorLaunches made{.launches = *std::move(launches), .arguments = {}};
  for (const WholeTensor& t : all) made.arguments.push_back(t.argument);
  return made;
}

}  // namespace unisono::network::gpu
