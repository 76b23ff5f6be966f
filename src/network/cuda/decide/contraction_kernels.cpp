#include "network/cuda/decide/contraction_kernels.hpp"

#include "network/cuda/decide/family_kernel.hpp"
#include "network/cuda/decide/passes.hpp"
#include "unisono/builder.hpp"

namespace unisono::network::gpu {

namespace {

// A kernel for the contraction's sums alone
KernelChoice bare_kernel(const PlanningInput& in, const NetworkPlan& plan, const Region& r, Form form) {
  GraphBuilder g;
  g.store(g.acc(), in.element, "sums");
  const Graph graph = g.build();
  const std::int64_t pitch = in.fused.style.pitch(extents(in.contraction(in.first(r))).cols);
  return choose_kernel(in, plan,
                       {.region = r,
                        .graph = graph,
                        .outputs = {{"sums", {{Location::Space::scratch}, pitch, in.element}}},
                        .form = form});
}

bool is_last_resort(const std::optional<FamilyKernel>& kernel) {
  return kernel && kernel->lowered.plan().family->is_last_resort();
}

// Family `plain` takes a whole region only if no other has a kernel for its sums
ContractionPlan plan_contraction(const PlanningInput& in, const NetworkPlan& plan, const WholeKernel& asked,
                                 std::optional<Refusal>& no_moments) {
  const Region& r = in.region(asked.region);
  ContractionPlan own;
  KernelChoice whole = faster_form(in, in.first(r), [&](Form form) {
    WholeKernel by_form = asked;
    by_form.form = form;
    return whole_kernel(in, plan, by_form, no_moments);
  });
  own.whole = std::move(whole.kernel), own.not_whole = std::move(whole.refusal);
  if (own.whole && !is_last_resort(own.whole)) return own;
  if (r.second) {  // whose sums one launch leaves to no other
    own.not_bare = because("there are two products");
    return own;
  }
  KernelChoice bare = faster_form(in, in.first(r), [&](Form form) { return bare_kernel(in, plan, r, form); });
  if (own.whole && (!bare.kernel || is_last_resort(bare.kernel))) return own;
  if (own.whole) own.not_whole = because("only family plain serves it in one launch, more slowly"), own.whole.reset();
  own.bare = std::move(bare.kernel), own.not_bare = std::move(bare.refusal);
  return own;
}

}  // namespace

PitchedTensor stored_tensor(const PlanningInput& in, const Region& r, TensorId id, Beside beside) {
  if (r.only_upsampled != id || beside == Beside::resampled) return in.element_tensor(id);
  return {{Location::Space::scratch}, in.fused.style.pitch(column_count(in.sizes(id))), in.element};
}

WholeKernel asked_of(const PlanningInput& in, const NetworkPlan& plan, std::size_t region, Beside beside) {
  return {.region = region, .beside = beside, .moments = wanted_output(plan, in.region(region))};
}

KernelChoice whole_kernel(const PlanningInput& in, const NetworkPlan& plan, const WholeKernel& asked,
                          std::optional<Refusal>& no_moments) {
  const Region& r = in.region(asked.region);
  KernelQuestion q{.region = r,
                   .graph = asked.beside == Beside::reduced ? r.reduced->graph : r.graph,
                   .operands = r.operands,
                   .gathered = plan.regions[asked.region].gathered,
                   .beside = asked.beside,
                   .form = asked.form};
  const ReducedStore* reduced = asked.beside == Beside::reduced ? &*r.reduced : nullptr;
  for (const RegionOutput& o : r.outputs)
    if (reduced == nullptr || !reduced->only || o.tensor != reduced->from)
      q.outputs.push_back({o.name, stored_tensor(in, r, o.tensor, asked.beside), o.tensor});
  if (reduced != nullptr) q.outputs.push_back({reduced->name, in.tensor(reduced->to), reduced->to});
  if (asked.moments && asked.beside == Beside::head) {
    no_moments = because("statistics: a head is computed of it");
  } else if (asked.moments) {
    q.moments = asked.moments;
    KernelChoice choice = choose_kernel(in, plan, q);
    if (choice.kernel) return choice;
    no_moments = std::move(choice.refusal);
    q.moments.reset();
  }
  return choose_kernel(in, plan, q);
}

// Nobody takes the moments of a head's result
void choose_kernel_alone(const PlanningInput& in, const NetworkPlan& plan, std::size_t region, RegionKernels& own) {
  if (own.contraction) return;
  own.contraction = plan_contraction(in, plan, asked_of(in, plan, region, Beside::nothing), own.no_moments);
  std::optional<Refusal> none;
  if (const auto& head = in.region(region).head) own.head = plan_contraction(in, plan, {.region = head->region}, none);
}

void compute_head(const PlanningInput& in, const NetworkPlan& plan, std::size_t region, RegionKernels& own) {
  if (!in.region(region).head) return;
  KernelChoice choice = whole_kernel(in, plan, asked_of(in, plan, region, Beside::head), own.no_moments);
  if (choice.kernel)
    own.contraction.emplace().whole = std::move(choice.kernel), own.beside = Beside::head;
  else
    own.apart = std::move(choice.refusal);
}

}  // namespace unisono::network::gpu
