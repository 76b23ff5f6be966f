/// Statistics of a tensor from the moments that the kernels of its parts have stored.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "network/cuda/decide/passes.hpp"
#include "network/cuda/emit/emission.hpp"

namespace unisono::network::gpu {

namespace {

// Mean and variance, as far as the kernel that this one stands for makes them
struct JoinedResults {
  std::optional<Location> mean, variance;
  std::vector<Interval> memory;
};

JoinedResults place_results(RegionEmission& e, const Graph& graph, const codegen::GraphKernel& kernel,
                            std::int64_t count, std::int64_t columns, std::map<ValueId, PlacedTensor>& results) {
  JoinedResults joined;
  const std::int64_t bytes = count * static_cast<std::int64_t>(sizeof(float));
  for (const codegen::GraphTensor& t : kernel.tensors) {
    if (t.kind != codegen::GraphTensor::Kind::reduction) continue;
    const PlacedTensor& placed = results[t.value] = floats_in_scratch(e, bytes, columns);
    joined.memory.push_back(placed.memory);
    (graph[t.value].op == Op::mean ? joined.mean : joined.variance) = placed.tensor.at;
  }
  return joined;
}

MomentSource source_of(const SourcePart& p, const TensorMoments& stored) {
  return {.entries = nullptr,
          .first = count32(p.first),
          .channels = count32(p.channels),
          .unit = count32(stored.unit),
          .slots = count32(stored.slots),
          .weight = p.upsampled ? 4.0F : 1.0F};
}

std::string text_of(const RegionEmission& e, const Region& r, const std::vector<SourcePart>& parts) {
  std::vector<std::string> names;
  for (const SourcePart& p : parts) names.push_back(fmt::format("'{}'", e.in.name(p.tensor)));
  return fmt::format("plain kernel: statistics of '{}' from its {} {}", e.in.name(*r.source),
                     names.size() == 1 ? "producer" : "producers",
                     fmt::join(names, names.size() == 2 ? " and " : ", "));
}

}  // namespace

void emit_joined_moments(RegionEmission& e, const Region& r, const Graph& graph, const codegen::GraphKernel& kernel,
                         const Extents& space, std::map<ValueId, PlacedTensor>& results) {
  const std::vector<SourcePart>& parts = e.plan.regions[e.index].statistics->parts;
  const ReduceDomain& domain = kernel.domain;
  JoinMomentsParams fixed{};
  fixed.images = count32(space.images), fixed.per_image = domain.per_image ? 1 : 0;
  fixed.width = count32(width_of(domain, space.cols)), fixed.results = count32(space.cols) / fixed.width;
  fixed.sources = count32(static_cast<std::int64_t>(parts.size()));
  const std::int64_t count = std::int64_t{fixed.results} * (domain.per_image ? space.images : 1);
  std::vector<Location> entries;
  Touched touched;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const StoredMoments& stored = e.launches.moments.at(parts[i].measured);
    fixed.source[i] = source_of(parts[i], stored.moments);
    entries.push_back(stored.at);
    touched.reads.push_back(interval(stored.at, 1, stored.moments.bytes, stored.moments.bytes));
  }
  const JoinedResults joined = place_results(e, graph, kernel, count, fixed.results, results);
  touched.writes = joined.memory;
  e.plain(codegen::PlainKernel::join_moments, 32 * count, fixed, entries, touched,
          {fmt::format("joined statistics of {}", describe(e.net(), *e.op)), text_of(e, r, parts)},
          [entries, mean = joined.mean, variance = joined.variance](JoinMomentsParams& q, const Bases& bases) {
            for (std::size_t i = 0; i < entries.size(); ++i)
              q.source[i].entries = static_cast<const Entry*>(address(entries[i], bases));
            if (mean) q.mean.memory = address(*mean, bases);
            if (variance) q.variance.memory = address(*variance, bases);
          });
}

}  // namespace unisono::network::gpu
