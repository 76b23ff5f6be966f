#include "network/cuda/decide/passes.hpp"

#include <algorithm>

namespace unisono::network::gpu {

std::span<const DecisionPass> decision_passes() {
  static constexpr DecisionPass all[] = {{"refuse types", refuse_types},
                                         {"im2col inputs", find_im2col_inputs},
                                         {"gathered operands", find_gathered_operands},
                                         {"wanted moments", want_moments},
                                         {"kernels", choose_kernels},
                                         {"merged statistics", merge_statistics}};
  return all;
}

NetworkPlan decide(const PlanningInput& in) {
  NetworkPlan plan;
  plan.regions.resize(in.fused.regions.size());
  for (const DecisionPass& pass : decision_passes()) pass.run(in, plan);
  return plan;
}

void choose_kernels(const PlanningInput& in, NetworkPlan& plan) {
  for (std::size_t i = 0; i < plan.regions.size(); ++i) choose_kernels_of(in, plan, i);
}

void choose_kernels_of(const PlanningInput& in, NetworkPlan& plan, std::size_t region) {
  const Region& r = in.region(region);
  RegionPlan& own = plan.regions[region];
  if (r.kind != RegionReport::Kind::contraction || !in.is_launched(r) || own.refusal) return;
  own.contraction.reset(), own.head.reset();
  own.beside = Beside::nothing, own.apart.reset();
  for (const auto pass : {store_resampled, compute_head, choose_kernel_alone}) pass(in, plan, region);
}

}  // namespace unisono::network::gpu
