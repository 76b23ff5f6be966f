#include "plan/stored_folds.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "ir/node_kinds.hpp"

namespace unisono::plan {

using ir::is_row, ir::over_rows;

Statistics& StoredFolds::domain_of(ValueId reduction) {
  ReduceDomain d = g_[reduction].attr.domain;
  d.cols |= is_row(g_[g_[reduction].inputs[0]]);  // of a value of a row there is one for all channels
  return stored_.of(d);
}

std::optional<Refusal> StoredFolds::place(std::size_t store) {
  const ValueId value = g_.stores[store].value;
  std::optional<ReduceDomain> domain;
  std::vector<ValueId> pending{value};
  while (!pending.empty()) {
    const ValueId id = pending.back();
    pending.pop_back();
    if (!late_[id]) continue;
    if (!over_rows(g_[id])) {
      pending.insert(pending.end(), g_[id].inputs.begin(), g_[id].inputs.end());
      continue;
    }
    found_.insert(id);
    const Statistics& of = domain_of(id);
    if (domain && !of.runs_over(*domain))
      return refusal_at(g_, value, "it combines reductions that run over different rows or channels");
    domain = of.domain;
  }
  const Axes own = !domain->cols        ? Axes{RowAxis::none, ColAxis::n}
                   : domain->groups > 1 ? Axes{RowAxis::none, ColAxis::g, domain->groups}
                                        : Axes{};
  const Axes expected{domain->per_image ? RowAxis::b : RowAxis::none, own.col, own.groups};
  if (!(g_[value].axes == expected))
    return refusal_at(g_, value,
                      fmt::format("functions of reductions are stored with their axes {}, not {}", to_string(expected),
                                  to_string(g_[value].axes)));
  stored_.of(*domain).stores.push_back(store);
  return std::nullopt;
}

void StoredFolds::add(ValueId reduction) {
  Statistics& d = domain_of(reduction);
  (g_[reduction].op == Op::variance ? d.moments : d.folds).push_back(reduction);
}

}  // namespace unisono::plan
