/// What the kernels of contractions make of an output as they store it: pooled, or upsampled.

#include <fmt/format.h>

#include <utility>

#include "families/registry.hpp"
#include "network/cuda/decide/contraction_kernels.hpp"
#include "network/cuda/decide/passes.hpp"
#include "network/resize_tables.hpp"

namespace unisono::network::gpu {

namespace {

bool repeats_each_twice(const cpu::AxisTable& table) {
  for (std::size_t i = 0; i < table.low.size(); ++i)
    if (table.low[i] != static_cast<std::int64_t>(i / 2)) return false;
  return table.weight.empty();
}

// Why the sizes do not allow a kernel to store it
std::optional<Refusal> refuse_store(const PlanningInput& in, const ResampledStore& s) {
  if (in.is_empty(s.to)) return because(fmt::format("'{}' is empty", in.name(s.to)));
  if (s.pooled) return std::nullopt;
  const Sizes &x = in.sizes(s.from), &y = in.sizes(s.to);
  const auto& resize = std::get<operators::Resize>(in.net().operators[s.op].kind);
  const double scale[] = {resize.height != 0 ? 0 : resize.scale_h, resize.width != 0 ? 0 : resize.scale_w};
  for (const std::size_t axis : {0u, 1u})
    if (y[2 + axis] != 2 * x[2 + axis] ||
        !repeats_each_twice(axis_table(resize, x[2 + axis], y[2 + axis], scale[axis])))
      return because(fmt::format("'{}' repeats other pixels than each twice", in.name(s.to)));
  return std::nullopt;
}

std::optional<Refusal> refuse_stores(const PlanningInput& in, const Region& r) {
  if (upsamples(in.first(r))) return because("its own image is upsampled");
  for (const ResampledStore& s : r.resampled)
    if (auto refusal = refuse_store(in, s)) return refusal;
  return std::nullopt;
}

// A kernel of another family and a launch that resamples are faster than a last resort that does both
Refusal refused_by_others(const PlanningInput& in, const FamilyKernel& last) {
  const lower::Problem& p = last.lowered.problem;
  const auto all = families::candidates({p.task, p.forms, in.device});
  const auto reasons = all ? families::refusals_by_reason(*all) : all.refusal().reasons;
  return because(reasons.empty() ? fmt::format("only family {} stores it", last.lowered.plan().family->name())
                                 : reasons.front());
}

}  // namespace

void store_resampled(const PlanningInput& in, const NetworkPlan& plan, std::size_t region, RegionKernels& own) {
  const Region& r = in.region(region);
  if (r.resampled.empty()) return;
  own.apart = refuse_stores(in, r);
  if (own.apart) return;
  KernelChoice choice = whole_kernel(in, plan, asked_of(in, plan, region, Beside::resampled), own.no_moments);
  if (choice.kernel && choice.kernel->lowered.plan().family->is_last_resort(in.device))
    own.apart = refused_by_others(in, *choice.kernel);
  else if (choice.kernel)
    own.contraction.emplace().whole = std::move(choice.kernel), own.beside = Beside::resampled;
  else
    own.apart = std::move(choice.refusal);
}

}  // namespace unisono::network::gpu
