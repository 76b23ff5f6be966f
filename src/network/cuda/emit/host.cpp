/// What runs on the host, and the launches that hand its tensors over.

#include <utility>

#include "network/cuda/emit/emission.hpp"
#include "network/cuda/emit/host_network.hpp"

namespace unisono::network::gpu {

void emit_host(RegionEmission& border, const HostGroup& group) {
  if (group.operators.empty()) return;
  HostStep step = host_step(border.in, border.plan, group, border.launches.places);
  for (std::size_t i = 0; i < group.inputs.size(); ++i)
    if (const auto& staged = step.inputs[i].staged)
      emit_border(border, {group.inputs[i], staged->position, BorderTensor::Way::to_host});
  const std::vector<HostTensor> made = step.outputs;
  border.launches.add(std::move(step));
  for (std::size_t i = 0; i < group.outputs.size(); ++i)
    if (const auto& staged = made[i].staged)
      emit_border(border, {group.outputs[i], staged->position, BorderTensor::Way::from_host});
}

}  // namespace unisono::network::gpu
