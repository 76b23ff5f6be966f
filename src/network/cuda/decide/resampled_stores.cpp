/// What the kernels of contractions make of an output as they store it: pooled, or enlarged.

#include <fmt/format.h>

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

// Why the sizes do not allow a kernel to store it; empty: they do
std::string refuse_store(const PlanningInput& in, const ResampledStore& s) {
  if (in.is_empty(s.to)) return fmt::format("'{}' is empty", in.name(s.to));
  if (s.pooled) return {};
  const Sizes &x = in.sizes(s.from), &y = in.sizes(s.to);
  const auto& resize = std::get<operators::Resize>(in.net().operators[s.op].kind);
  const double scale[] = {resize.height != 0 ? 0 : resize.scale_h, resize.width != 0 ? 0 : resize.scale_w};
  for (const std::size_t axis : {0u, 1u})
    if (y[2 + axis] != 2 * x[2 + axis] ||
        !repeats_each_twice(axis_table(resize, x[2 + axis], y[2 + axis], scale[axis])))
      return fmt::format("'{}' repeats other pixels than each twice", in.name(s.to));
  return {};
}

std::string refuse_stores(const PlanningInput& in, const Region& r) {
  if (enlarges(in.first(r))) return "its own image is enlarged";
  for (const ResampledStore& s : r.resampled)
    if (std::string why = refuse_store(in, s); !why.empty()) return why;
  return {};
}

}  // namespace

void store_resampled(const PlanningInput& in, NetworkPlan& plan, std::size_t region) {
  const Region& r = in.region(region);
  if (r.resampled.empty()) return;
  RegionPlan& own = plan.regions[region];
  own.why_apart = refuse_stores(in, r);
  if (!own.why_apart.empty()) return;
  KernelChoice choice = whole_kernel(in, plan, region, Beside::resampled, Form::given);
  if (choice.kernel)
    own.contraction = ContractionPlan{.whole = std::move(choice.kernel)}, own.beside = Beside::resampled;
  else
    own.why_apart = first_reason(choice.why);
}

}  // namespace unisono::network::gpu
