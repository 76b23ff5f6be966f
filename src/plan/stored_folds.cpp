#include "plan/stored_folds.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "ir/node_kinds.hpp"

namespace unisono::plan {

using ir::is_row, ir::over_rows;

RowFolds& StoredFolds::domain_of(ValueId reduction) {
  const ReduceDomain& d = g_[reduction].attr.domain;
  const bool per_image = d.per_image;
  const int groups = d.cols || is_row(g_[g_[reduction].inputs[0]]) ? d.groups : 0;
  const auto found =
      std::ranges::find_if(domains_, [&](const auto& x) { return x.per_image == per_image && x.groups == groups; });
  if (found != domains_.end()) return *found;
  return domains_.emplace_back(RowFolds{per_image, groups, {}, {}, {}});
}

std::optional<Refusal> StoredFolds::place(std::size_t store) {
  const ValueId value = g_.stores[store].value;
  RowFolds* domain = nullptr;
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
    const auto before = domain == nullptr ? std::ptrdiff_t{-1} : domain - domains_.data();
    domain = &domain_of(id);
    if (before >= 0 && domain != domains_.data() + before)
      return refusal_at(g_, value, "it combines reductions that run over different rows or channels");
  }
  const Axes own = domain->groups == 0  ? Axes{RowAxis::none, ColAxis::n}
                   : domain->groups > 1 ? Axes{RowAxis::none, ColAxis::g, domain->groups}
                                        : Axes{};
  const Axes expected{domain->per_image ? RowAxis::b : RowAxis::none, own.col, own.groups};
  if (!(g_[value].axes == expected))
    return refusal_at(g_, value,
                      fmt::format("functions of reductions are stored with their axes {}, not {}", to_string(expected),
                                  to_string(g_[value].axes)));
  domain->stores.push_back(store);
  return std::nullopt;
}

void StoredFolds::add(ValueId reduction) {
  RowFolds& d = domain_of(reduction);
  (g_[reduction].op == Op::variance ? d.moments : d.folds).push_back(reduction);
}

}  // namespace unisono::plan
