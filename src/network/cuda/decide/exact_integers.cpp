/// Values that descend from integers. A step of a diffusion process, 999, is 1000 in bf16, and its sine another:
/// kernels that find tensors in 16 bits would be wrong by as much as the value. Memory has them as f32 where all that
/// read them know that (FusedNetwork::own_type).

#include <fmt/format.h>

#include <algorithm>

#include "network/cuda/decide/passes.hpp"

namespace unisono::network::gpu {

namespace {

// Whether it must be exact, and is so on the host alone
bool is_rounded(const PlanningInput& in, TensorId id) { return in.fused.exact[id] && !in.fused.own_type[id]; }

// A tensor that the region reads, or makes, and that kernels would round
std::optional<TensorId> rounded_tensor(const PlanningInput& in, const Region& r) {
  std::optional<TensorId> first;
  bool all = true;  // that are read are exact
  std::vector<TensorId> made;
  for (const std::size_t i : r.operators) {
    const Operator& op = in.net().operators[i];
    for (const TensorId id : data_inputs(op)) {
      if (in.is_constant(id) || std::ranges::find(made, id) != made.end() || !is_float(in.net()[id].dtype)) continue;
      all = all && in.fused.exact[id];
      if (!first && is_rounded(in, id)) first = id;
    }
    made.push_back(op.output);
  }
  if (all && first) return first;
  for (const RegionOutput& o : r.outputs)
    if (is_rounded(in, o.tensor)) return o.tensor;
  return std::nullopt;
}

// What the host has no operator for, or takes far too long for
bool needs_tensor_cores(const PlanningInput& in, const Region& r) {
  const OperatorKind& kind = in.first(r).kind;
  return r.kind == RegionReport::Kind::contraction || std::holds_alternative<operators::Attention>(kind) ||
         std::holds_alternative<operators::NormGradient>(kind);
}

}  // namespace

void keep_integers_exact(const PlanningInput& in, NetworkPlan& plan) {
  for (std::size_t i = 0; i < plan.regions.size(); ++i) {
    const Region& r = in.region(i);
    std::optional<Unserved>& host = plan.regions[i].host;
    if (host || !in.is_launched(r) || needs_tensor_cores(in, r)) continue;
    const auto rounded = rounded_tensor(in, r);
    if (!rounded) continue;
    host = Unserved{
        r.operators[0],
        because(fmt::format("'{}' is computed from integers, which 16 bits do not hold exactly", in.name(*rounded)))};
  }
}

}  // namespace unisono::network::gpu
