#include "plan/exchanged.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "ir/node_kinds.hpp"
#include "plan/normalisation.hpp"
#include "plan/refusal.hpp"

namespace unisono::plan {

namespace {

using ir::has_rows, ir::is_full, ir::over_channels, ir::over_rows;

/// Reductions over rows that values of elements or rows are computed from.
std::vector<ValueId> exchanged_statistics(const Graph& g) {
  std::vector<bool> read(g.nodes.size());
  for (ValueId id = static_cast<ValueId>(g.nodes.size()); id-- > 0;)
    if (has_rows(g[id]) || (read[id] && !over_rows(g[id])))
      for (const ValueId in : g[id].inputs) read[in] = true;
  std::vector<ValueId> list;
  for (ValueId id = 0; id < g.nodes.size(); ++id)
    if (read[id] && over_rows(g[id])) list.push_back(id);
  return list;
}

std::optional<Refusal> refuse_statistic(const Graph& g, ValueId id, const ReduceDomain& domain) {
  const Node &x = g[id], &in = g[x.inputs[0]];
  if (!is_full(in)) return refusal_at(g, id, fmt::format("a reduction of a value with axes {}", to_string(in.axes)));
  if (x.op == Op::variance) return refusal_at(g, id, "a variance next to other statistics that tiles exchange");
  if (x.dtype == DType::i32 || x.dtype == DType::boolean)
    return refusal_at(g, id, fmt::format("a reduction in {}: cast its input to f32", to_string(x.dtype)));
  if (!(x.attr.domain == domain))
    return refusal_at(g, id, "it runs over other rows or channels than the first reduction that tiles exchange");
  return std::nullopt;
}

}  // namespace

Expected<Stage> find_exchanged(const Graph& g) {
  const std::vector<ValueId> statistics = exchanged_statistics(g);
  if (statistics.empty()) return because("no reduction over rows is read by elements");
  for (ValueId id = 0; id < g.nodes.size(); ++id)
    if (over_channels(g[id])) return refusal_at(g, id, "a reduction over a row's channels next to one over rows");
  const ReduceDomain& domain = g[statistics[0]].attr.domain;
  const std::vector<bool> late = depends_on(g, statistics);
  for (const ValueId id : statistics) {
    if (auto refusal = refuse_statistic(g, id, domain)) return *std::move(refusal);
    if (late[g[id].inputs[0]]) return refusal_at(g, id, "a reduction of values that read another");
  }
  std::optional<ValueId> waits;
  const std::vector<bool> read = ir::read_behind_reductions(g);
  for (ValueId id = 0; id < g.nodes.size(); ++id) {
    if (!read[id]) continue;
    if (waits)
      return refusal_at(g, id,
                        fmt::format("elements after the reductions over rows read it besides '{}'; one value of the "
                                    "accumulators waits for them",
                                    text_of(g, *waits)));
    waits = id;
  }
  if (!waits) return because("elements after the reductions over rows read no value of the accumulators");
  if (const DType t = g[*waits].dtype; t == DType::i32 || t == DType::boolean || t == DType::f64)
    return refusal_at(g, *waits, fmt::format("a value that waits in {}", to_string(t)));
  return Stage{.statistics = {{.domain = domain, .folds = statistics}}, .waits = waits};
}

}  // namespace unisono::plan
