/// Statistics of a tensor that no kernel of its own makes whole, a concatenation above all: the kernels that make its
/// parts store moments of what they write, and a small launch merges them, in place of a pass over the tensor.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "network/cuda/lowering.hpp"
#include "network/cuda/parameters.hpp"
#include "network/names.hpp"
#include "passes/passes.hpp"
#include "plan/moment_store.hpp"

namespace unisono::network::gpu {

namespace {

// Where a normalisation's sums run over rows, of the tensor itself
bool takes_moments(const Graph& g, ValueId id) {
  const Node& x = g[id];
  return (x.op == Op::mean || x.op == Op::variance) && x.attr.domain.rows && g[x.inputs[0]].op == Op::acc;
}

std::int64_t width_of(const ReduceDomain& d, std::int64_t columns) { return d.cols ? columns / d.groups : 1; }

}  // namespace

bool sums_source(const Graph& g, const codegen::GraphKernel& kernel) {
  return std::ranges::any_of(kernel.tensors, [&](const codegen::GraphTensor& t) {
    return t.kind == codegen::GraphTensor::Kind::partials && takes_moments(g, t.value);
  });
}

// The parts of a tensor along its channels, from its first one on; the reason if one of them is no convolution's
std::string Lowering::find_parts(TensorId id, std::int64_t first, std::vector<Piece>& parts) const {
  const std::string& name = net()[id].name;
  if (sizes(id).size() != 4) return fmt::format("'{}' is no image", name);
  for (const Operator& op : net().operators) {
    const auto* concat = std::get_if<operators::Concat>(&op.kind);
    if (op.output != id || concat == nullptr || concat->axis != 1) continue;
    for (const TensorId input : op.inputs) {
      if (std::string why = find_parts(input, first, parts); !why.empty()) return why;
      first += column_count(sizes(input));
    }
    return {};
  }
  for (const Region& r : p_.fused.regions) {
    if (r.kind != RegionReport::Kind::contraction) continue;
    std::optional<TensorId> measured;
    for (const RegionOutput& o : r.outputs)
      if (o.tensor == id) measured = id;
    const bool enlarged = !measured;
    for (const ResampledStore& s : r.resampled)
      if (s.to == id && !s.pooled) measured = s.from;
    if (!measured) continue;
    if (std::holds_alternative<operators::Gemm>(net().operators[r.operators[0]].kind)) break;
    parts.push_back({id, *measured, first, column_count(sizes(id)), enlarged});
    return {};
  }
  return fmt::format("no kernel of a convolution makes '{}'", name);
}

// Finds the tensors whose mean and M2 are worth storing, and for how many channels
void Lowering::find_measured() {
  for (std::size_t i = 0; i < p_.fused.regions.size(); ++i) {
    const Region& r = p_.fused.regions[i];
    if (r.kind != RegionReport::Kind::epilogue || !r.source || unmerged_.contains(i)) continue;
    const std::int64_t columns = column_count(sizes(*r.source));
    const Graph g = passes::run_pipeline(r.graph);
    std::int64_t width = 0;
    for (ValueId id = 0; id < g.nodes.size(); ++id)
      if (takes_moments(g, id)) width = std::gcd(width, width_of(g[id].attr.domain, columns));
    if (width == 0) continue;
    std::vector<Piece> parts;
    std::string why = find_parts(*r.source, 0, parts);
    if (why.empty() && parts.size() > kMomentSources)
      why = fmt::format("{} parts; a launch merges {}", parts.size(), kMomentSources);
    if (!why.empty()) {
      unmerged_[i] = why;
      continue;
    }
    for (const Piece& p : parts)
      measured_[p.measured] = std::gcd(measured_[p.measured], std::gcd(width, std::gcd(p.first, p.channels)));
    parts_[i] = std::move(parts);
  }
}

std::optional<TensorId> Lowering::measured_output(const Region& r) const {
  for (const RegionOutput& o : r.outputs)
    if (measured_.contains(o.tensor)) return o.tensor;
  return std::nullopt;
}

// As long-lived as the plan: other regions' kernels run between those that write and those that read. A tensor has one
// place, however many forms of its kernel are tried.
Place Lowering::kept(TensorId id, std::size_t bytes) {
  auto& [place, size] = kept_[id];
  if (size < bytes) {
    place = {Place::Where::kept, lowered_.kept_bytes, {}};
    size = bytes;
    lowered_.kept_bytes += (bytes + 255) / 256 * 256;
  }
  return place;
}

// Why the moments of a region's source cannot come from its parts, now that their kernels are chosen; empty: they can
std::string Lowering::refuse_merging() {
  if (const auto known = unmerged_.find(region_); known != unmerged_.end()) return known->second;
  const auto found = parts_.find(region_);
  if (found == parts_.end()) return "its statistics are of other values";
  for (const Piece& p : found->second) {
    const auto given = given_.find(p.measured);
    const std::string& name = net()[p.tensor].name;
    std::string why;
    if (given == given_.end())
      why = fmt::format("the kernel of '{}' stores none: {}", name, unmeasured_[p.measured]);
    else if (p.enlarged && !given->second.enlarged)
      why = fmt::format("'{}' is enlarged by a kernel of its own", name);
    if (!why.empty()) return unmerged_[region_] = why, newly_unmerged_ = true, why;
  }
  return {};
}

void Lowering::join_moments(const Region& r, const Graph& graph, const codegen::GraphKernel& kernel,
                            const Extents& space, std::map<ValueId, Located>& results,
                            std::map<ValueId, Interval>& memory) {
  const std::vector<Piece>& parts = parts_.at(region_);
  const ReduceDomain& domain = kernel.domain;
  JoinMomentsParams fixed{};
  fixed.images = count32(space.images), fixed.per_image = domain.per_image ? 1 : 0;
  fixed.width = count32(width_of(domain, space.cols)), fixed.results = count32(space.cols) / fixed.width;
  fixed.sources = count32(static_cast<std::int64_t>(parts.size()));
  const std::int64_t count = std::int64_t{fixed.results} * (domain.per_image ? space.images : 1);
  std::vector<Place> entries;
  std::vector<std::string> names;
  Touched touched;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Piece& p = parts[i];
    const GivenMoments& given = given_.at(p.measured);
    fixed.source[i] = {.entries = nullptr,
                       .first = count32(p.first),
                       .channels = count32(p.channels),
                       .unit = count32(given.unit),
                       .slots = count32(given.slots),
                       .weight = p.enlarged ? 4.0F : 1.0F};
    entries.push_back(given.place);
    touched.reads.push_back(interval(given.place, 1, given.bytes, given.bytes));
    names.push_back(fmt::format("'{}'", net()[p.tensor].name));
  }
  std::optional<Place> mean, variance;
  for (const codegen::GraphTensor& t : kernel.tensors) {
    if (t.kind != codegen::GraphTensor::Kind::reduction) continue;
    const Place place = scratch(static_cast<std::size_t>(count) * sizeof(float));
    results[t.value] = {place, fixed.results, DType::f32};
    const std::int64_t bytes = count * static_cast<std::int64_t>(sizeof(float));
    touched.writes.push_back(memory[t.value] = interval(place, 1, bytes, bytes));
    (graph[t.value].op == Op::mean ? mean : variance) = place;
  }
  plain(codegen::PlainKernel::join_moments, 32 * count, fixed, entries, touched,
        fmt::format("joined statistics of {}", describe(net(), *op_)),
        [entries, mean, variance](JoinMomentsParams& q, const Bases& bases) {
          for (std::size_t i = 0; i < entries.size(); ++i)
            q.source[i].entries = static_cast<const Entry*>(address(entries[i], bases));
          if (mean) q.mean.memory = address(*mean, bases);
          if (variance) q.variance.memory = address(*variance, bases);
        });
  lowered_.steps.back()->how =
      fmt::format("plain kernel: statistics of '{}' from its {} {}", net()[*r.source].name,
                  names.size() == 1 ? "producer" : "producers", fmt::join(names, names.size() == 2 ? " and " : ", "));
}

}  // namespace unisono::network::gpu
