#include "network/cuda/decide/contraction_kernels.hpp"

#include "network/cuda/decide/passes.hpp"
#include "network/cuda/decide/tensor_core_kernel.hpp"
#include "unisono/builder.hpp"

namespace unisono::network::gpu {

namespace {

// A kernel for the contraction's sums alone
KernelChoice bare_kernel(const PlanningInput& in, const NetworkPlan& plan, const Region& r, Form form) {
  GraphBuilder g;
  g.store(g.acc(), in.element, "sums");
  const Graph graph = g.build();
  const std::int64_t pitch = (extents(in.contraction(in.first(r))).cols + 7) / 8 * 8;
  return choose_kernel(in, plan,
                       {.region = r,
                        .graph = graph,
                        .outputs = {{"sums", {{Location::Space::scratch}, pitch, in.element}}},
                        .form = form});
}

bool is_last_resort(const std::optional<TensorCoreKernel>& kernel) {
  return kernel && kernel->lowered.plan().family->is_last_resort();
}

// Family `plain` takes a whole region only if no other has a kernel for its sums
ContractionPlan plan_contraction(const PlanningInput& in, NetworkPlan& plan, std::size_t region) {
  const Region& r = in.region(region);
  ContractionPlan own;
  KernelChoice whole =
      faster_form(in, in.first(r), [&](Form form) { return whole_kernel(in, plan, region, Beside::nothing, form); });
  own.whole = std::move(whole.kernel), own.not_whole = std::move(whole.refusal);
  if (own.whole && !is_last_resort(own.whole)) return own;
  KernelChoice bare = faster_form(in, in.first(r), [&](Form form) { return bare_kernel(in, plan, r, form); });
  if (own.whole && (!bare.kernel || is_last_resort(bare.kernel))) return own;
  if (own.whole) own.not_whole = because("only family plain serves it in one launch, more slowly"), own.whole.reset();
  own.bare = std::move(bare.kernel), own.not_bare = std::move(bare.refusal);
  return own;
}

}  // namespace

PitchedTensor stored_tensor(const PlanningInput& in, const Region& r, TensorId id, Beside beside) {
  if (r.only_enlarged != id || beside == Beside::resampled) return in.tensor(id);
  return {{Location::Space::scratch}, in.fused.style.pitch(column_count(in.sizes(id))), in.element};
}

KernelChoice whole_kernel(const PlanningInput& in, NetworkPlan& plan, std::size_t region, Beside beside, Form form) {
  const Region& r = in.region(region);
  KernelQuestion q{.region = r,
                   .graph = r.graph,
                   .operands = r.operands,
                   .gathered = plan.regions[region].gathered,
                   .beside = beside,
                   .form = form};
  for (const RegionOutput& o : r.outputs)
    q.outputs.push_back({o.name, stored_tensor(in, r, o.tensor, beside), o.tensor});
  if (const auto wanted = wanted_output(plan, r); wanted && beside == Beside::head) {
    plan.no_moments[*wanted] = because("statistics: a head is computed of it");
  } else if (wanted) {
    q.moments = wanted;
    KernelChoice choice = choose_kernel(in, plan, q);
    if (choice.kernel) return choice;
    plan.no_moments[*wanted] = *choice.refusal;
    q.moments.reset();
  }
  return choose_kernel(in, plan, q);
}

void choose_kernel_alone(const PlanningInput& in, NetworkPlan& plan, std::size_t region) {
  RegionPlan& own = plan.regions[region];
  if (own.contraction) return;
  own.contraction = plan_contraction(in, plan, region);
  if (const auto& head = in.region(region).head) own.head = plan_contraction(in, plan, head->region);
}

void compute_head(const PlanningInput& in, NetworkPlan& plan, std::size_t region) {
  RegionPlan& own = plan.regions[region];
  if (!in.region(region).head) return;
  KernelChoice choice = whole_kernel(in, plan, region, Beside::head, Form::given);
  if (choice.kernel)
    own.contraction = ContractionPlan{.whole = std::move(choice.kernel)}, own.beside = Beside::head;
  else
    own.apart = std::move(choice.refusal);
}

}  // namespace unisono::network::gpu
