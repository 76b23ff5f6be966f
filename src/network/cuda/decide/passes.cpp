#include "network/cuda/decide/passes.hpp"

#include <algorithm>

namespace unisono::network::gpu {

std::span<const DecisionPass> decision_passes() {
  static constexpr DecisionPass all[] = {{"unserved regions", find_unserved},
                                         {"exact integers", keep_integers_exact},
                                         {"im2col inputs", find_im2col_inputs},
                                         {"gathered operands", find_gathered_operands},
                                         {"wanted statistics", want_statistics},
                                         {"merged statistics", merge_statistics},
                                         {"small layers", join_small_layers},
                                         {"attention", choose_attention},
                                         {"kernels", choose_kernels},
                                         {"pools of small layers", join_pools},
                                         {"unserved epilogues", find_unserved_epilogues},
                                         {"host groups", group_host_regions}};
  return all;
}

NetworkPlan decide(const PlanningInput& in) {
  NetworkPlan plan;
  plan.regions.resize(in.fused.regions.size());
  for (const DecisionPass& pass : decision_passes()) pass.run(in, plan);
  return plan;
}

bool has_kernels(const PlanningInput& in, const NetworkPlan& plan, std::size_t region) {
  const RegionPlan& own = plan.regions[region];
  return in.is_launched(in.region(region)) && !own.host && !own.reduced_by && !own.layers_by;
}

bool needs_kernels(const PlanningInput& in, const NetworkPlan& plan, std::size_t region) {
  return in.region(region).kind == RegionReport::Kind::contraction && !plan.regions[region].layers &&
         has_kernels(in, plan, region);
}

RegionKernels kernels_of(const PlanningInput& in, const NetworkPlan& plan, std::size_t region) {
  RegionKernels own;
  for (const auto part : {store_resampled, store_reduced, choose_kernel_alone}) part(in, plan, region, own);
  return own;
}

void choose_kernels(const PlanningInput& in, NetworkPlan& plan) {
  for (std::size_t i = 0; i < plan.regions.size(); ++i) {
    RegionKernels& own = plan.regions[i];
    if (own.contraction || !needs_kernels(in, plan, i)) continue;
    own = kernels_of(in, plan, i);
    if (!in.region(i).reduced) continue;
    const std::vector<std::size_t>& reduced = in.region(i).reduced->regions;
    if (own.beside != Beside::reduced) plan.regions[reduced[0]].not_reduced = own.apart;
    for (const std::size_t k : reduced)
      if (own.beside == Beside::reduced) plan.regions[k].reduced_by = i;
  }
}

}  // namespace unisono::network::gpu
