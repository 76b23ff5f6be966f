#include "plan/normalisation.hpp"

#include <fmt/format.h>

#include "ir/op_table.hpp"
#include "plan/refusal.hpp"
#include "unisono/error.hpp"

namespace unisono::plan {

namespace {

bool is_full_axes(const Axes& a) { return a == axes::mn; }
bool runs_over_channels(const ReduceDomain& d) { return d.cols && !d.rows; }

// ---- Statistics

// Refuses a reduction that the CTAs of a kernel do not share
std::optional<Refusal> refuse_reduction(const Graph& g, ValueId id) {
  const Node& x = g[id];
  const ReduceDomain& d = x.attr.domain;
  if (x.op != Op::mean && x.op != Op::variance)
    return refusal_at(g, id,
                      fmt::format("of reductions, tiles share means and variances only, not {}", to_string(x.op)));
  if (!is_full_axes(g[x.inputs[0]].axes))
    return refusal_at(g, id,
                      fmt::format("statistics are taken of values [m,n], not {}", to_string(g[x.inputs[0]].axes)));
  if (runs_over_channels(d) && d.groups != 1)
    return refusal_at(
        g, id,
        fmt::format("statistics of a pixel run over all its channels (layer_norm), not {} groups of them", d.groups));
  if (x.dtype != DType::f32)
    return refusal_at(g, id, fmt::format("statistics have dtype f32, not {}", to_string(x.dtype)));
  return std::nullopt;
}

// Mean and variance of one value over one domain, but for `others`
std::optional<Refusal> refuse_statistics(const Graph& g, const std::set<ValueId>& others) {
  const Node* first = nullptr;
  for (ValueId id = 0; id < g.nodes.size(); ++id) {
    const Node& x = g[id];
    if (!ir::is_reduction(x.op) || others.contains(id)) continue;
    if (auto refusal = refuse_reduction(g, id)) return refusal;
    if (first == nullptr) first = &x;
    if (first->inputs[0] != x.inputs[0])
      return refusal_at(
          g, id, fmt::format("it takes statistics of a second value besides '{}'", text_of(g, first->inputs[0])));
    if (!(first->attr.domain == x.attr.domain))
      return refusal_at(g, id, "another statistic of the same value runs over other groups");
  }
  return std::nullopt;
}

}  // namespace

std::optional<Refusal> refuse_images(const Graph& g) {
  for (ValueId id = 0; id < g.nodes.size(); ++id)
    if (g[id].axes.row == RowAxis::b)
      return refusal_at(
          g, id, "a value of an image next to statistics over the rows of all images: their tiles belong to no image");
  return std::nullopt;
}

std::vector<bool> depends_on(const Graph& graph, const std::vector<ValueId>& roots) {
  std::vector<bool> depends(graph.nodes.size());
  for (const ValueId r : roots) depends[r] = true;
  for (ValueId id = 0; id < graph.nodes.size(); ++id)
    for (const ValueId in : graph[id].inputs)
      if (depends[in]) depends[id] = true;
  return depends;
}

std::optional<Refusal> find_normalisation(Epilogue& epilogue, const std::optional<passes::AffineForm>& form,
                                          const std::set<ValueId>& others) {
  const bool of_moments = !form || form->part.variance || form->part.mean;
  if (of_moments)
    if (auto refusal = refuse_statistics(epilogue.graph, others)) return refusal;
  if (!form) return std::nullopt;
  epilogue.graph = form->graph;
  const Graph& graph = epilogue.graph;
  const ReduceDomain& domain = graph[form->part.reductions().front()].attr.domain;
  Statistics statistics{.domain = domain, .folds = {}};
  for (const ValueId id : form->part.reductions())
    (graph[id].op == Op::variance ? statistics.moments : statistics.folds).push_back(id);
  epilogue.stages.push_back({.statistics = {std::move(statistics)}, .affine = form->part, .waits = form->part.input});
  return epilogue.normalised()->batch ? refuse_images(graph) : std::nullopt;
}

}  // namespace unisono::plan
