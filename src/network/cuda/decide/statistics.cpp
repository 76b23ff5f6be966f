/// Statistics of a tensor that no kernel of its own makes whole, a concatenation above all: the kernels that make its
/// parts store moments of what they write, and a small launch merges them, in place of a pass over the tensor.

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "network/cuda/decide/passes.hpp"
#include "network/cuda/parameters.hpp"
#include "passes/passes.hpp"

namespace unisono::network::gpu {

bool takes_moments(const Graph& g, ValueId id) {
  const Node& x = g[id];
  return (x.op == Op::mean || x.op == Op::variance) && x.attr.domain.rows && g[x.inputs[0]].op == Op::acc;
}

std::int64_t width_of(const ReduceDomain& d, std::int64_t columns) { return d.cols ? columns / d.groups : 1; }

namespace {

// The tensor of this region whose moments are those of `id`: one that it stores, or stores upsampled as well
std::optional<SourcePart> part_made_by(const Region& r, TensorId id) {
  if (r.kind != RegionReport::Kind::contraction) return std::nullopt;
  for (const ResampledStore& s : r.resampled)
    if (s.to == id && !s.pooled) return SourcePart{.tensor = id, .measured = s.from, .upsampled = true};
  for (const RegionOutput& o : r.outputs)
    if (o.tensor == id) return SourcePart{.tensor = id, .measured = id};
  return std::nullopt;
}

const Operator* concatenation_of(const Network& n, TensorId id) {
  for (const Operator& op : n.operators) {
    const auto* concat = std::get_if<operators::Concat>(&op.kind);
    if (op.output == id && concat != nullptr && concat->axis == 1) return &op;
  }
  return nullptr;
}

// The parts of a tensor along its channels, from its first one on; refused if one of them is not a convolution's
std::optional<Refusal> find_parts(const PlanningInput& in, TensorId id, std::int64_t first,
                                  std::vector<SourcePart>& parts) {
  if (in.sizes(id).size() != 4) return because(fmt::format("'{}' is not an image", in.name(id)));
  if (const Operator* concat = concatenation_of(in.net(), id)) {
    for (const TensorId input : concat->inputs) {
      if (auto refusal = find_parts(in, input, first, parts)) return refusal;
      first += column_count(in.sizes(input));
    }
    return std::nullopt;
  }
  for (const Region& r : in.fused.regions) {
    auto part = part_made_by(r, id);
    if (!part) continue;
    if (std::holds_alternative<operators::Gemm>(in.first(r).kind)) break;
    part->first = first, part->channels = column_count(in.sizes(id));
    parts.push_back(*part);
    return std::nullopt;
  }
  return because(fmt::format("no kernel of a convolution makes '{}'", in.name(id)));
}

// Channels of which the region's graph makes one mean or variance of its source; 0: it makes none
std::int64_t width_of_statistics(const PlanningInput& in, const Region& r) {
  const std::int64_t columns = column_count(in.sizes(*r.source));
  const Graph g = passes::run_pipeline(r.graph);
  std::int64_t width = 0;
  for (ValueId id = 0; id < g.nodes.size(); ++id)
    if (takes_moments(g, id)) width = std::gcd(width, width_of(g[id].attr.domain, columns));
  return width;
}

std::map<TensorId, std::int64_t> wanted_moments(const NetworkPlan& plan) {
  std::map<TensorId, std::int64_t> channels;
  for (const RegionPlan& region : plan.regions) {
    if (!region.statistics || region.statistics->refusal) continue;
    for (const SourcePart& p : region.statistics->parts) {
      std::int64_t& together = channels[p.measured];
      together = std::gcd(together, std::gcd(region.statistics->width, std::gcd(p.first, p.channels)));
    }
  }
  return channels;
}

// What the regions of which statistics are wanted answered: their kernels, with these if they can be
using Answers = std::map<std::size_t, RegionKernels>;

Answers asked(const PlanningInput& in, const NetworkPlan& plan) {
  Answers answers;
  for (std::size_t i = 0; i < plan.regions.size(); ++i)
    if (needs_kernels(in, plan, i) && wanted_output(plan, in.region(i))) answers.emplace(i, kernels_of(in, plan, i));
  return answers;
}

// Why a part's moments are not there to be merged
std::optional<Refusal> refuse_part(const PlanningInput& in, const Answers& answers, const SourcePart& p) {
  for (const auto& [region, kernels] : answers) {
    const auto& outputs = in.region(region).outputs;
    if (std::ranges::find(outputs, p.measured, &RegionOutput::tensor) == outputs.end()) continue;
    const TensorMoments* stored = kernels.moments();
    if (stored == nullptr || stored->tensor != p.measured)
      return because(fmt::format(
          "the kernel of '{}' stores none: {}", in.name(p.tensor),
          kernels.no_moments ? kernels.no_moments->first() : "statistics: it stores those of another output"));
    if (p.upsampled && !stored->upsampled)
      return because(fmt::format("'{}' is upsampled by a separate kernel", in.name(p.tensor)));
    return std::nullopt;
  }
  return because(fmt::format("the kernel of '{}' stores none: it does not use tensor cores", in.name(p.tensor)));
}

}  // namespace

std::optional<TensorId> wanted_output(const NetworkPlan& plan, const Region& r) {
  for (const RegionOutput& o : r.outputs)
    if (plan.wanted_moments.contains(o.tensor)) return o.tensor;
  return std::nullopt;
}

void want_statistics(const PlanningInput& in, NetworkPlan& plan) {
  for (std::size_t i = 0; i < plan.regions.size(); ++i) {
    const Region& r = in.region(i);
    if (r.kind != RegionReport::Kind::epilogue || !r.source || !has_kernels(in, plan, i)) continue;
    StatisticsPlan s{.width = width_of_statistics(in, r)};
    if (s.width == 0) continue;
    s.refusal = find_parts(in, *r.source, 0, s.parts);
    if (!s.refusal && s.parts.size() > kMomentSources)
      s.refusal = because(fmt::format("{} parts; a launch merges {}", s.parts.size(), kMomentSources));
    plan.regions[i].statistics = std::move(s);
  }
  plan.wanted_moments = wanted_moments(plan);
}

void merge_statistics(const PlanningInput& in, NetworkPlan& plan) {
  Answers answers = asked(in, plan);
  std::map<TensorId, std::int64_t> merged;
  for (RegionPlan& region : plan.regions) {
    if (!region.statistics || region.statistics->refusal) continue;
    for (const SourcePart& p : region.statistics->parts)
      if (!region.statistics->refusal) region.statistics->refusal = refuse_part(in, answers, p);
    if (region.statistics->refusal) continue;
    for (const SourcePart& p : region.statistics->parts) merged[p.measured] = plan.wanted_moments.at(p.measured);
  }
  plan.wanted_moments = std::move(merged);
  for (auto& [i, kernels] : answers)
    if (wanted_output(plan, in.region(i))) static_cast<RegionKernels&>(plan.regions[i]) = std::move(kernels);
}

}  // namespace unisono::network::gpu
