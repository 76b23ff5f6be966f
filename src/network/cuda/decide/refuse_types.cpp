#include <fmt/format.h>

#include "network/cuda/decide/passes.hpp"
#include "network/names.hpp"

namespace unisono::network::gpu {

namespace {

std::optional<Refusal> refuse_type(const PlanningInput& in, const Operator& op) {
  const auto refuse = [&](TensorId id) -> std::optional<Refusal> {
    if (in.net()[id].dtype == DType::f32) return std::nullopt;
    return because(
        fmt::format("{}: tensor '{}' is of {}; kernels of a GPU compute f32 networks only; compile the network for "
                    "Device::cpu",
                    where(op), in.name(id), to_string(in.net()[id].dtype)));
  };
  for (const TensorId id : data_inputs(op))
    if (auto refusal = refuse(id)) return refusal;
  return refuse(op.output);
}

}  // namespace

void refuse_types(const PlanningInput& in, NetworkPlan& plan) {
  for (std::size_t i = 0; i < plan.regions.size(); ++i) {
    if (!in.is_launched(in.region(i))) continue;
    for (const std::size_t op : in.region(i).operators)
      if (!plan.regions[i].refusal) plan.regions[i].refusal = refuse_type(in, in.net().operators[op]);
  }
}

}  // namespace unisono::network::gpu
