#include "network/cuda/decide/passes.hpp"

namespace unisono::network::gpu {

void find_gathered_operands(const PlanningInput& in, NetworkPlan& plan) {
  for (std::size_t i = 0; i < plan.regions.size(); ++i) {
    const Region& r = in.region(i);
    if (!has_kernels(in, plan, i) || plan.regions[i].tensors) continue;  // tensor kernels read any strides
    for (std::size_t k = 0; k < r.operands.size(); ++k) {
      const RegionOperand& o = r.operands[k];
      if (in.is_constant(o.tensor)) continue;
      const OperandView v = view_of(in, o, in.first(r));
      if (pitched_rows(v, o.axes)) continue;
      plan.regions[i].gathered.push_back({k, v, packed_rows(v, o.axes, in.fused.style.pitch(v.columns))});
    }
  }
}

}  // namespace unisono::network::gpu
