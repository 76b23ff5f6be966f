/// Two layers of a pooled image as one launch.

#include <fmt/format.h>

#include <algorithm>

#include "network/cuda/decide/passes.hpp"
#include "passes/optimised.hpp"

namespace unisono::network::gpu {

namespace {

// A cluster reads both filters for each image: beyond this the launches of the tensor cores, which read them once, are
// as fast
constexpr std::int64_t most_weights = std::int64_t{1} << 20;
// Elements of an image that eight CTAs sum: 128 KB each of 16 bits take as long as a launch of the pool's own, which
// has more CTAs
constexpr std::int64_t most_pooled = std::int64_t{1} << 19;
constexpr std::int64_t most_inputs = 8192;  // of a layer, which every CTA has in shared memory

plan::Expected<SmallLayersPlan> plan_layers(const PlanningInput& in, const SmallLayers& l, const Region& second) {
  const Region& first = in.region(l.first);
  const auto weights = [&](const Region& r) { return element_count(in.sizes(in.first(r).inputs[1])); };
  const std::int64_t all = weights(first) + weights(second);
  if (all > most_weights)
    return because(fmt::format("{} weights; of at most {} a launch reads all for each image", all, most_weights));
  for (const Region* r : {&first, &second})
    if (const std::int64_t inputs = column_count(in.sizes(in.first(*r).inputs[0])); inputs > most_inputs)
      return because(fmt::format("{} inputs of a layer; a launch takes {}", inputs, most_inputs));
  auto kernel =
      codegen::small_layers_kernel(passes::optimised(first.graph, {}), passes::optimised(second.graph, {}), in.element);
  if (!kernel) return std::move(kernel).refusal();
  return SmallLayersPlan{*std::move(kernel)};
}

}  // namespace

void join_small_layers(const PlanningInput& in, NetworkPlan& plan) {
  for (std::size_t i = 0; i < plan.regions.size(); ++i) {
    const auto& layers = in.region(i).layers;
    const auto is_free = [&](std::size_t k) { return needs_kernels(in, plan, k) && !plan.regions[k].contraction; };
    if (!layers || !is_free(i) || !is_free(layers->first)) continue;
    auto joined = plan_layers(in, *layers, in.region(i));
    if (joined)
      plan.regions[i].layers = *std::move(joined), plan.regions[layers->first].layers_by = i;
    else
      plan.regions[i].not_layers = std::move(joined).refusal();
  }
}

void join_pools(const PlanningInput& in, NetworkPlan& plan) {
  for (std::size_t i = 0; i < plan.regions.size(); ++i) {
    if (!plan.regions[i].layers) continue;
    const auto& [first, pool, from, pooled] = *in.region(i).layers;
    if (!pool || !has_kernels(in, plan, *pool)) continue;
    const Sizes& x = in.sizes(from);
    if (element_count(x) / std::max<std::int64_t>(1, x[0]) > most_pooled) continue;
    plan.regions[i].layers->pools = true;
    plan.regions[*pool].layers_by = i;
  }
}

}  // namespace unisono::network::gpu
