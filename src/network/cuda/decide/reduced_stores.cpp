/// What the kernels of contractions sum up of an output as they make it.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "families/registry.hpp"
#include "network/cuda/decide/contraction_kernels.hpp"
#include "network/cuda/decide/passes.hpp"

namespace unisono::network::gpu {

namespace {

std::optional<Refusal> refuse_reduction(const PlanningInput& in, const NetworkPlan& plan, const Region& r,
                                        const WholeKernel& asked) {
  if (upsamples(in.first(r))) return because("its own image is upsampled");
  if (asked.moments) return because(fmt::format("the kernel stores statistics of '{}'", in.name(*asked.moments)));
  for (const std::size_t k : r.reduced->regions)
    if (const auto& host = plan.regions[k].host) return host->why;
  if (in.is_empty(r.reduced->from) || in.is_empty(r.reduced->to)) return because("it is empty");
  return std::nullopt;
}

constexpr double launch_us = 3;  // as the plans' cost model has what only moves memory

// Why a launch that reads what the kernel stores is faster. Times of two families are no measure of each other's: where
// another kernel than that of the bare region has reductions, it was made for other problems
std::optional<Refusal> refuse_slower(const PlanningInput& in, const NetworkPlan& plan, const WholeKernel& asked,
                                     const FamilyKernel& reducing) {
  std::optional<Refusal> none;
  const KernelChoice alone = whole_kernel(in, plan, {.region = asked.region}, none);
  if (!alone.kernel) return std::nullopt;
  const families::Plan& own = alone.kernel->lowered.plan();
  if (own.family != reducing.lowered.plan().family)
    return because(fmt::format("the kernel that serves it without ({}) has no reductions", families::title(own)));
  const double bytes = 2 * static_cast<double>(element_count(in.sizes(in.region(asked.region).reduced->from)));
  const double apart = predicted_us(*alone.kernel) + launch_us + bytes / in.device.memory_tbps / 1e6;
  if (predicted_us(reducing) <= apart) return std::nullopt;
  return because(fmt::format("{:.1f} us predicted, and {:.1f} by two launches", predicted_us(reducing), apart));
}

}  // namespace

void store_reduced(const PlanningInput& in, const NetworkPlan& plan, std::size_t region, RegionKernels& own) {
  const Region& r = in.region(region);
  if (!r.reduced || own.contraction) return;
  const WholeKernel asked = asked_of(in, plan, region, Beside::reduced);
  own.apart = refuse_reduction(in, plan, r, asked);
  if (own.apart) return;
  KernelChoice choice = whole_kernel(in, plan, asked, own.no_moments);
  if (!choice.kernel)
    own.apart = std::move(choice.refusal);
  else if (choice.kernel->lowered.plan().family->is_last_resort(in.device))
    own.apart = because(fmt::format("only family {} serves it in one launch, more slowly",
                                    choice.kernel->lowered.plan().family->name()));
  else if (auto slower = refuse_slower(in, plan, asked, *choice.kernel))
    own.apart = std::move(slower);
  else
    own.contraction.emplace().whole = std::move(choice.kernel), own.beside = Beside::reduced;
}

}  // namespace unisono::network::gpu
