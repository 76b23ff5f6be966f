/// What the fuser's units become: regions in an order in which each stands after all that it needs.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "network/fuser.hpp"
#include "network/names.hpp"
#include "unisono/error.hpp"

namespace unisono::network {

// Units so that each stands after all that it needs: repeatedly the unit whose operators come first among those ready
std::vector<std::size_t> Fuser::unit_order() const {
  const std::size_t n = network_.operators.size();
  std::vector<std::size_t> missing(n, 0);
  std::vector<std::vector<std::size_t>> next(n);
  for (std::size_t u = 0; u < n; ++u) {
    std::set<std::size_t> needs;
    for (const std::size_t m : members_[u])
      for (const TensorId id : data_inputs(op(m)))
        if (producer_[id] != none && unit_[producer_[id]] != u) needs.insert(unit_[producer_[id]]);
    missing[u] = needs.size();
    for (const std::size_t v : needs) next[v].push_back(u);
  }
  std::set<std::size_t> ready;
  std::size_t units = 0;
  for (std::size_t u = 0; u < n; ++u) {
    units += members_[u].empty() ? 0 : 1;
    if (!members_[u].empty() && missing[u] == 0) ready.insert(u);
  }
  std::vector<std::size_t> order;
  while (!ready.empty()) {
    const std::size_t u = *ready.begin();
    ready.erase(ready.begin());
    order.push_back(u);
    for (const std::size_t v : next[u])
      if (--missing[v] == 0) ready.insert(v);
  }
  if (order.size() != units) throw InternalError("the fuser made a cycle of regions");
  return order;
}

// What leaves the region: results that are outputs of the network or that others read; the last made comes first
std::vector<TensorId> Fuser::stored_tensors(const std::vector<std::size_t>& members) const {
  std::vector<TensorId> stored;
  for (const std::size_t m : members) {
    const TensorId id = op(m).output;
    const bool leaves =
        std::any_of(users_[id].begin(), users_[id].end(), [&](std::size_t u) { return unit_[u] != unit_[m]; });
    if (leaves || is_output_[id]) stored.push_back(id);
  }
  std::reverse(stored.begin(), stored.end());
  if (stored.empty()) stored.push_back(op(std::ranges::max(members)).output);  // read for its shape alone
  return stored;
}

// Why an operator that reads a result of the unit `seed` stands outside of it
Refusal Fuser::refused_user(std::size_t user, std::size_t seed) {
  if (unit_[user] != user) return because("belongs to another region");
  return refusal(user, seed).value_or(because("begins a new region"));
}

std::string Fuser::end_note(const Region& r, const std::vector<TensorId>& stored) {
  const std::size_t unit = unit_[r.operators.front()];
  std::vector<std::string> reasons;
  for (const TensorId id : stored) {
    if (is_output_[id]) reasons.push_back(fmt::format("'{}' is an output", network_[id].name));
    for (const std::size_t u : users_[id])
      if (unit_[u] != unit) reasons.push_back(fmt::format("{} {}", where(op(u)), refused_user(u, unit).first()));
  }
  return fmt::format("{}", fmt::join(reasons, "; "));
}

Region Fuser::region(std::size_t unit) {
  using Kind = RegionReport::Kind;
  Region r;
  r.operators = members_[unit];
  std::rotate(r.operators.begin(), std::ranges::find(r.operators, unit), std::ranges::find(r.operators, unit) + 1);
  const std::vector<TensorId> stored = stored_tensors(r.operators);
  const Operator& first = op(unit);
  r.chain = chains_.contains(unit);
  if (r.chain || (is_mapped(unit) && r.operators.size() > 1)) {
    r.kind = Kind::single;
    for (const TensorId id : stored) r.outputs.push_back({fmt::format("y{}", r.outputs.size() + 1), id});
    r.note = end_note(r, stored);
    return r;
  }
  if (!is_contraction(first.kind) && !is_pointwise(first.kind)) {
    r.kind = Kind::single;
    r.outputs.push_back({"y", first.output});
    r.note = "cannot be part of an epilogue: it " + refusal(unit, unit).value_or(because(of_any_type)).first();
    return r;
  }
  r.kind = is_contraction(first.kind) ? Kind::contraction : Kind::epilogue;
  if (const auto second = second_.find(unit); second != second_.end()) r.second = second->second;
  if (r.kind == Kind::epilogue) {
    // the accumulator's stand-in: the first tensor from outside that has the full shape
    for (const std::size_t m : r.operators)
      for (const TensorId id : op(m).inputs) {
        const bool inside = producer_[id] != none && unit_[producer_[id]] == unit;
        const bool vector = std::holds_alternative<operators::Normalisation>(op(m).kind) && id != op(m).inputs[0];
        if (!r.source && !inside && !vector && network_[id].shape == shape(unit) && shape(unit).size() > 1)
          r.source = id;
      }
  }
  write_epilogue(network_, r, stored);
  r.note = end_note(r, stored);
  return r;
}

FusedNetwork Fuser::run() {
  if (fuse_) {
    const std::size_t n = network_.operators.size();
    pair_products();
    for (std::size_t i = n; i-- > 0;)
      if (is_contraction(op(i).kind) && unit_[i] == i) grow(i);
    for (std::size_t i = 0; i < n; ++i)
      if (unit_[i] == i && !chains_.contains(i) &&
          (is_pointwise(op(i).kind) || (maps_ && is_map(op(i).kind) && has_number_types(op(i)))))
        grow(i);
  }
  FusedNetwork f;
  for (const std::size_t u : unit_order()) f.regions.push_back(region(u));
  f.network = std::move(network_);
  return f;
}

}  // namespace unisono::network
