#include "network/cuda/decide/contraction_kernels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ir/op_table.hpp"
#include "network/cuda/decide/family_kernel.hpp"
#include "network/cuda/decide/passes.hpp"
#include "network/cuda/decide/served_convolution.hpp"
#include "network/cuda/decide/served_graph.hpp"
#include "unisono/builder.hpp"

namespace unisono::network::gpu {

namespace {

// A kernel for the contraction's sums alone; `only`: KernelQuestion::only
KernelChoice bare_kernel(const PlanningInput& in, const NetworkPlan& plan, const Region& r, Form form,
                         std::optional<std::size_t> only = {}) {
  GraphBuilder g;
  g.store(g.acc(), in.element, "sums");
  const Graph graph = g.build();
  const std::int64_t pitch = in.fused.style.pitch(extents(in.contraction(in.first(r))).cols);
  return choose_kernel(in, plan,
                       {.region = r,
                        .graph = graph,
                        .outputs = {{"sums", {{Location::Space::scratch}, pitch, in.element}}},
                        .form = form,
                        .only = only});
}

bool is_last_resort(const PlanningInput& in, const FamilyKernel& kernel) {
  return kernel.lowered.plan().family->is_last_resort(in.device);
}
bool is_last_resort(const PlanningInput& in, const std::optional<FamilyKernel>& kernel) {
  return kernel && is_last_resort(in, *kernel);
}

constexpr double graph_launch_us = 3;  // as the plans' cost model has what only moves memory
// By how much two launches must be predicted to be faster than one: the rest of the region may be read by other kernels
constexpr double apart_margin = 1.25;

// Statistics over many rows take two launches more: their parts, and these joined
int graph_launches(const Region& r) {
  const auto over_rows = [](const Node& x) {
    return ir::is_normalisation(x.op) ? ir::normalisation_domain(x.op, 1).rows
                                      : ir::is_reduction(x.op) && x.attr.domain.rows;
  };
  return std::ranges::any_of(r.graph.nodes, over_rows) ? 3 : 1;
}

// The launches that compute a region's epilogue read the stored sums, and may do so twice
double graph_us(const PlanningInput& in, const Region& r) {
  double elements = 2 * static_cast<double>(element_count(in.sizes(in.first(r).output)));
  for (const RegionOutput& o : r.outputs) elements += static_cast<double>(element_count(in.sizes(o.tensor)));
  for (const RegionOperand& o : r.operands)
    if (o.axes == axes::mn) elements += static_cast<double>(element_count(in.sizes(o.tensor)));
  return graph_launches(r) * graph_launch_us + 2 * elements / in.device.memory_tbps / 1e6;
}

// Whether it normalises by messages between CTAs, and may leave that to launches of its own
bool may_normalise_apart(const PlanningInput& in, const Region& r, const WholeKernel& asked,
                         const FamilyKernel& whole) {
  return asked.beside == Beside::nothing && !whole.moments && whole.lowered.plan().cooperative &&
         has_reductions(r.graph) && !refuse_graph(in, r, in.element);
}

// Why one launch is slower than the sums' and the epilogue's
std::optional<Refusal> refuse_slower_whole(const PlanningInput& in, const Region& r, const FamilyKernel& whole,
                                           const KernelChoice& bare) {
  if (!bare.kernel || is_last_resort(in, *bare.kernel)) return std::nullopt;
  const double apart = predicted_us(*bare.kernel) + graph_us(in, r);
  if (predicted_us(whole) <= apart_margin * apart) return std::nullopt;
  return because(
      fmt::format("{:.1f} us predicted, and {:.1f} by {} launches", predicted_us(whole), apart, 1 + graph_launches(r)));
}

// A last resort takes a whole region only if no other family has a kernel for its sums
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
  const bool is_fast = own.whole && !is_last_resort(in, own.whole);
  if (is_fast && (r.second || !may_normalise_apart(in, r, asked, *own.whole))) return own;
  if (r.second) {  // whose sums one launch leaves to no other
    own.not_bare = because("there are two products");
    return own;
  }
  KernelChoice bare = faster_form(in, in.first(r), [&](Form form) { return bare_kernel(in, plan, r, form); });
  if (is_fast) {
    own.not_whole = refuse_slower_whole(in, r, *own.whole, bare);
    if (!own.not_whole) return own;
    own.whole.reset();
  }
  if (own.whole && (!bare.kernel || is_last_resort(in, bare.kernel))) return own;
  if (own.whole)
    own.not_whole = because(
        fmt::format("only family {} serves it in one launch, more slowly", own.whole->lowered.plan().family->name())),
    own.whole.reset();
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

namespace {

KernelQuestion question_of(const PlanningInput& in, const NetworkPlan& plan, const WholeKernel& asked) {
  const Region& r = in.region(asked.region);
  const ReducedStore* reduced = asked.beside == Beside::reduced ? &*r.reduced : nullptr;
  KernelQuestion q{.region = r,
                   .graph = reduced != nullptr ? reduced->graph : r.graph,
                   .operands = r.operands,
                   .gathered = plan.regions[asked.region].gathered,
                   .beside = asked.beside,
                   .form = asked.form};
  for (const RegionOutput& o : r.outputs)
    if (reduced == nullptr || !reduced->only || o.tensor != reduced->from)
      q.outputs.push_back({o.name, stored_tensor(in, r, o.tensor, asked.beside), o.tensor});
  if (reduced != nullptr) q.outputs.push_back({reduced->name, in.tensor(reduced->to), reduced->to});
  return q;
}

// With the moments that are asked for, if the kernel can store them
KernelChoice with_moments(const PlanningInput& in, const NetworkPlan& plan, const WholeKernel& asked, KernelQuestion q,
                          std::optional<Refusal>& no_moments) {
  if (asked.moments) {
    q.moments = asked.moments;
    KernelChoice choice = choose_kernel(in, plan, q);
    if (choice.kernel) return choice;
    no_moments = std::move(choice.refusal);
    q.moments.reset();
  }
  return choose_kernel(in, plan, q);
}

// The epilogue of two contractions as one of the second alone, which reads the first's sums as an operand
Graph of_second(Graph g, const std::string& sums) {
  for (Node& x : g.nodes) {
    if (x.op == Op::acc) x.op = Op::operand, x.attr.name = sums;
    if (x.op == Op::acc1) x.op = Op::acc;
  }
  return g;
}

// Two contractions by a kernel each
KernelChoice two_kernels(const PlanningInput& in, const NetworkPlan& plan, const WholeKernel& asked,
                         std::optional<Refusal>& no_moments) {
  const Region& r = in.region(asked.region);
  KernelChoice first = bare_kernel(in, plan, r, asked.form, r.operators[0]);
  if (!first.kernel) return first;
  KernelQuestion q = question_of(in, plan, asked);
  q.only = r.second, q.sums = "sums";
  const auto is_taken = [&](const auto& list) {
    return std::ranges::any_of(list, [&](const auto& x) { return x.name == q.sums; });
  };
  while (is_taken(q.operands) || is_taken(q.graph.stores)) q.sums += '_';
  const Graph graph = of_second(q.graph, q.sums);
  std::vector<RegionOperand> operands = r.operands;
  operands.push_back({q.sums, in.first(r).output, axes::mn});
  KernelQuestion own{.region = r,
                     .graph = graph,
                     .operands = operands,
                     .gathered = q.gathered,
                     .outputs = q.outputs,
                     .beside = q.beside,
                     .form = q.form,
                     .only = q.only,
                     .sums = q.sums};
  KernelChoice second = with_moments(in, plan, asked, std::move(own), no_moments);
  if (second.kernel) second.kernel->sums = q.sums, second.kernel->ahead.push_back(*std::move(first.kernel));
  return second;
}

}  // namespace

// Two convolutions of one image have a kernel each where that is predicted to be faster: of few pixels, whose sums
// several CTAs share (split-K), which those of both do not, or if no kernel of the tensor cores has both.
KernelChoice whole_kernel(const PlanningInput& in, const NetworkPlan& plan, const WholeKernel& asked,
                          std::optional<Refusal>& no_moments) {
  const Region& r = in.region(asked.region);
  KernelChoice both = with_moments(in, plan, asked, question_of(in, plan, asked), no_moments);
  if (!r.second || !is_conv2d(in.first(r).kind)) return both;
  std::optional<Refusal> none;
  KernelChoice two = two_kernels(in, plan, asked, none);
  if (!two.kernel || is_last_resort(in, two.kernel) || is_last_resort(in, two.kernel->ahead[0])) return both;
  const bool is_served = both.kernel && !is_last_resort(in, both.kernel);
  if (is_served && predicted_us(*both.kernel) <= predicted_us(*two.kernel)) return both;
  const std::string why =
      is_served
          ? fmt::format("{:.1f} us predicted, and {:.1f} by one", predicted_us(*two.kernel), predicted_us(*both.kernel))
      : both.kernel ? fmt::format("only family {} serves both in one", both.kernel->lowered.plan().family->name())
                    : both.refusal->first();
  two.kernel->how += ", one of two launches: " + why;
  no_moments = std::move(none);
  return two;
}

void choose_kernel_alone(const PlanningInput& in, const NetworkPlan& plan, std::size_t region, RegionKernels& own) {
  if (own.contraction) return;
  own.contraction = plan_contraction(in, plan, asked_of(in, plan, region, Beside::nothing), own.no_moments);
}

}  // namespace unisono::network::gpu
