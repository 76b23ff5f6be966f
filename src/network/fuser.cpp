/// Cuts a network into regions: one contraction and everything after it that can join as one epilogue graph.
///
/// Every operator starts as a unit of its own. Contractions, last first, then pointwise operators that are left over,
/// first first, take in the pointwise operators after them. An operator joins if one of its inputs is made by the
/// region, its result has the region's shape, and its other inputs can be ready before the region starts: no path leads
/// from the region through another unit back to it. Tensors that others need too become further outputs.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "network/dim.hpp"
#include "network/names.hpp"
#include "network/regions.hpp"
#include "network/space.hpp"
#include "unisono/error.hpp"

namespace unisono::network {

namespace {

constexpr std::size_t largest_region = 200;     // operators
constexpr std::size_t largest_map_region = 15;  // a kernel has all tensors of so many
constexpr std::size_t search_budget = 1 << 14;  // operators visited to prove that a join makes no cycle

bool is_map(const OperatorKind& k) { return std::holds_alternative<operators::Map>(k); }
bool is_map_of(MapOp which, const Operator& op) {
  const auto* map = std::get_if<operators::Map>(&op.kind);
  return map != nullptr && map->op == which;
}

constexpr const char* of_any_type = "compares, chooses, rounds or converts, or is of another type than f32";

class Fuser {
 public:
  Fuser(Network network, bool fuse, bool maps) : network_(std::move(network)), fuse_(fuse), maps_(maps) { index(); }
  FusedNetwork run();

 private:
  void index();
  void grow(std::size_t seed);
  void join(std::size_t candidate, std::size_t seed, std::set<std::size_t>& candidates);
  void absorb(std::size_t seed);
  std::vector<std::size_t> made_for(std::size_t reader, std::size_t seed) const;
  std::vector<std::size_t> with_conditions(std::size_t candidate, std::size_t seed) const;
  bool joins(std::size_t candidate, std::size_t seed);
  std::optional<Refusal> refusal(std::size_t candidate, std::size_t seed);
  Refusal refused_user(std::size_t user, std::size_t seed);
  std::optional<Refusal> refused_operand(std::size_t candidate, std::size_t input, std::size_t seed) const;
  std::optional<Refusal> refused_beside(const Operator& c, std::size_t seed) const;
  bool depends_on(std::size_t unit, std::size_t target) const;
  bool is_mapped(std::size_t unit) const;
  bool may_map(std::size_t unit) const;
  bool has_number_types(const Operator& o) const;
  std::vector<std::size_t> unit_order() const;
  Region region(std::size_t unit);
  std::string end_note(const Region& r, const std::vector<TensorId>& stored);
  std::vector<TensorId> stored_tensors(const std::vector<std::size_t>& members) const;
  const Operator& op(std::size_t i) const { return network_.operators[i]; }
  const Shape& shape(std::size_t i) const { return network_[op(i).output].shape; }

  Network network_;
  bool fuse_, maps_;
  static constexpr std::size_t none = static_cast<std::size_t>(-1);
  std::vector<std::size_t> producer_;              // by tensor: the operator, or none
  std::vector<std::vector<std::size_t>> users_;    // by tensor
  std::vector<bool> is_output_;                    // by tensor
  std::vector<std::size_t> unit_;                  // by operator: first operator of its unit
  std::vector<std::vector<std::size_t>> members_;  // by unit, in order
};

void Fuser::index() {
  producer_.assign(network_.tensors.size(), none);
  users_.resize(network_.tensors.size());
  is_output_.assign(network_.tensors.size(), false);
  for (const TensorId id : network_.outputs) is_output_[id] = true;
  for (std::size_t i = 0; i < network_.operators.size(); ++i) {
    producer_[op(i).output] = i;
    const auto inputs = data_inputs(op(i));
    for (const TensorId id : std::set<TensorId>(inputs.begin(), inputs.end())) users_[id].push_back(i);
    unit_.push_back(i);
    members_.push_back({i});
  }
}

// Whether `unit` needs a result of `target`, directly or through other units. Gives up with "yes" on a long search.
bool Fuser::depends_on(std::size_t unit, std::size_t target) const {
  const std::size_t earliest = members_[target].front();
  std::vector<std::size_t> stack{unit};
  std::set<std::size_t> seen{unit};
  std::size_t visited = 0;
  while (!stack.empty()) {
    const std::size_t u = stack.back();
    stack.pop_back();
    if (u == target) return true;
    if (members_[u].back() < earliest) continue;  // all of it stands before the target
    for (const std::size_t m : members_[u]) {
      if (++visited > search_budget) return true;
      for (const TensorId id : data_inputs(op(m)))
        if (producer_[id] != none && seen.insert(unit_[producer_[id]]).second) stack.push_back(unit_[producer_[id]]);
    }
  }
  return false;
}

// Why an operator that reads a result of the unit `seed` cannot join it
std::optional<Refusal> Fuser::refusal(std::size_t candidate, std::size_t seed) {
  const Operator& c = op(candidate);
  if (is_contraction(c.kind)) return because("a contraction of its own");
  if (std::holds_alternative<operators::Concat>(c.kind)) return because("joins tensors");
  if (std::holds_alternative<operators::Pool2d>(c.kind)) return because("reads windows of pixels");
  if (is_map(c.kind) && !(may_map(seed) && has_number_types(c))) return because(of_any_type);
  if (std::holds_alternative<operators::Reduce>(c.kind) || std::holds_alternative<operators::ArgReduce>(c.kind))
    return because("reduces axes");
  if (std::holds_alternative<operators::MatMul>(c.kind)) return because("multiplies batches of matrices");
  if (std::holds_alternative<operators::Attention>(c.kind)) return because("is attention");
  if (!is_pointwise(c.kind) && !is_map(c.kind)) return because("changes shape or order");
  if (!fuse_) return because("fusion is off");
  if (!(shape(candidate) == shape(seed)))
    return because(fmt::format("has shape {}, the region {}", to_string(shape(candidate)), to_string(shape(seed))));
  if (members_[seed].size() >= largest_region)
    return because(fmt::format("the region has {} operators already", largest_region));
  if (auto why = refused_beside(c, seed)) return why;
  for (std::size_t i = 0; i < c.inputs.size(); ++i)
    if (auto why = refused_operand(candidate, i, seed)) return why;
  return std::nullopt;
}

// Regions of operators on elements of any type are kernels of their own kind
std::optional<Refusal> Fuser::refused_beside(const Operator& c, std::size_t seed) const {
  if (!is_map(c.kind) && !is_mapped(seed)) return std::nullopt;
  if (!is_map(c.kind) && !std::holds_alternative<operators::Elementwise>(c.kind))
    return because("normalises, and the region computes element by element");
  if (members_[seed].size() < largest_map_region) return std::nullopt;
  return because(fmt::format("the region has {} operators already", members_[seed].size()));
}

// An operand of operators on elements of any type broadcasts in whichever way
std::optional<Refusal> Fuser::refused_operand(std::size_t candidate, std::size_t input, std::size_t seed) const {
  const Operator& c = op(candidate);
  const TensorId id = c.inputs[input];
  const std::size_t p = producer_[id];
  const bool inside = p != none && unit_[p] == seed;
  const bool broadcasts = may_map(seed) && (is_map(c.kind) || is_mapped(seed));
  if (std::holds_alternative<operators::Normalisation>(c.kind) && input > 0) {
    if (inside) return because(fmt::format("its scale or shift '{}' is made here", network_[id].name));
  } else if (const bool images = !is_contraction(op(seed).kind) || shape(seed).size() == 4;
             !inside && !broadcasts && !axes_of(network_[id].shape, shape(seed), images)) {
    return because(fmt::format("its operand '{}' {} has no axes over {}", network_[id].name,
                               to_string(network_[id].shape), to_string(shape(seed))));
  }
  if (!inside && p != none && depends_on(unit_[p], seed))
    return because(fmt::format("its operand '{}' needs this region's result", network_[id].name));
  return std::nullopt;
}

bool Fuser::is_mapped(std::size_t unit) const {
  return may_map(unit) && std::ranges::any_of(members_[unit], [&](std::size_t m) { return is_map(op(m).kind); });
}

// Whether a region may take in an operator on elements of any type: one of such operators, and elementwise ones
bool Fuser::may_map(std::size_t unit) const {
  return maps_ && std::ranges::all_of(members_[unit], [&](std::size_t m) {
           return is_map(op(m).kind) || std::holds_alternative<operators::Elementwise>(op(m).kind);
         });
}

// No operator computes with floats of 16 bits. What converts them stands by itself, as at the border the tensor may lie
// in memory as another type.
bool Fuser::has_number_types(const Operator& o) const {
  const auto is_number = [&](TensorId id) { return !is_float(network_[id].dtype) || size_of(network_[id].dtype) > 2; };
  return is_number(o.output) && std::ranges::all_of(o.inputs, is_number);
}

bool Fuser::joins(std::size_t candidate, std::size_t seed) {
  if (unit_[candidate] != candidate || members_[candidate].size() != 1) return false;
  const auto& inputs = op(candidate).inputs;
  const bool reads = std::any_of(inputs.begin(), inputs.end(),
                                 [&](TensorId id) { return producer_[id] != none && unit_[producer_[id]] == seed; });
  return reads && !refusal(candidate, seed);
}

void Fuser::grow(std::size_t seed) {
  std::set<std::size_t> candidates(users_[op(seed).output].begin(), users_[op(seed).output].end());
  while (!candidates.empty()) {  // in the order of the network
    const std::size_t c = *candidates.begin();
    candidates.erase(candidates.begin());
    if (joins(c, seed)) {
      join(c, seed, candidates);
      continue;
    }
    for (const std::size_t m : with_conditions(c, seed)) join(m, seed, candidates);
    if (unit_[c] == c && network_[op(c).output].dtype == DType::boolean)
      candidates.insert(users_[op(c).output].begin(), users_[op(c).output].end());
  }
  if (maps_ && is_contraction(op(seed).kind)) absorb(seed);
  std::sort(members_[seed].begin(), members_[seed].end());
}

void Fuser::join(std::size_t candidate, std::size_t seed, std::set<std::size_t>& candidates) {
  unit_[candidate] = seed;
  members_[seed].push_back(candidate);
  members_[candidate].clear();
  candidates.insert(users_[op(candidate).output].begin(), users_[op(candidate).output].end());
}

// A choice by comparisons and logic that are made for it alone, with these, if all of them join: no bool is stored
std::vector<std::size_t> Fuser::with_conditions(std::size_t candidate, std::size_t seed) const {
  if (!maps_ || !fuse_ || may_map(seed) || !is_map_of(MapOp::select, op(candidate))) return {};
  std::vector<std::size_t> all{candidate};
  for (std::size_t k = 0; k < all.size(); ++k) {
    if (all[k] == none) return {};  // the caller's
    for (const TensorId id : op(all[k]).inputs)
      if (network_[id].dtype == DType::boolean && std::ranges::find(all, producer_[id]) == all.end())
        all.push_back(producer_[id]);
  }
  const auto is_here = [&](std::size_t i) { return std::ranges::find(all, i) != all.end(); };
  bool reads = false;
  for (const std::size_t i : all) {
    if (unit_[i] != i || members_[i].size() != 1 || !graph_operation(op(i).kind) || !(shape(i) == shape(seed)))
      return {};
    if (i != candidate && (is_output_[op(i).output] || !std::ranges::all_of(users_[op(i).output], is_here))) return {};
    for (std::size_t k = 0; k < op(i).inputs.size(); ++k) {
      const TensorId id = op(i).inputs[k];
      if (network_[id].dtype == DType::boolean) continue;  // made here
      if (network_[id].dtype != DType::f32 || refused_operand(i, k, seed)) return {};
      reads = reads || (producer_[id] != none && unit_[producer_[id]] == seed);
    }
  }
  if (!reads || members_[seed].size() + all.size() > largest_region) return {};
  std::ranges::sort(all);
  return all;
}

// An elementwise operator of inputs and constants that the region, but not its contraction, alone reads
std::vector<std::size_t> Fuser::made_for(std::size_t reader, std::size_t seed) const {
  std::vector<std::size_t> all{reader};
  const auto takes = [&](std::size_t u) {
    const bool inside = (unit_[u] == seed && u != seed) || std::ranges::find(all, u) != all.end();
    return inside && (std::holds_alternative<operators::Elementwise>(op(u).kind) || is_map(op(u).kind));
  };
  for (std::size_t k = 0; k < all.size(); ++k) {
    const Operator& o = op(all[k]);
    if (all.size() > 4 || unit_[all[k]] != all[k] || !std::holds_alternative<operators::Elementwise>(o.kind) ||
        members_[all[k]].size() != 1 || is_output_[o.output] || !std::ranges::all_of(users_[o.output], takes) ||
        !(shape(all[k]) == shape(seed)))
      return {};
    for (const TensorId id : o.inputs) {
      const std::size_t p = producer_[id];
      if (p == none && !axes_of(network_[id].shape, shape(seed), shape(seed).size() == 4)) return {};
      if (p != none && std::ranges::find(all, p) == all.end()) all.push_back(p);
    }
  }
  return all;
}

// What side operands are made of: `1 - t`
void Fuser::absorb(std::size_t seed) {
  std::set<std::size_t> readers;  // which have joined
  for (const std::size_t m : std::vector<std::size_t>(members_[seed]))
    for (const TensorId id : op(m).inputs)
      if (const std::size_t p = producer_[id]; m != seed && p != none && unit_[p] != seed)
        for (const std::size_t i : made_for(p, seed)) join(i, seed, readers);
}

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
  return stored;
}

// Why an operator that reads a result of the unit `seed` stands outside of it
Refusal Fuser::refused_user(std::size_t user, std::size_t seed) {
  if (unit_[user] != user) return because("belongs to another region");
  return refusal(user, seed).value_or(because("begins a region of its own"));
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
  if (is_mapped(unit) && r.operators.size() > 1) {
    r.kind = Kind::single;
    for (const TensorId id : stored) r.outputs.push_back({fmt::format("y{}", r.outputs.size() + 1), id});
    r.note = end_note(r, stored);
    return r;
  }
  if (!is_contraction(first.kind) && !is_pointwise(first.kind)) {
    r.kind = Kind::single;
    r.outputs.push_back({"y", first.output});
    r.note = "no part of an epilogue: it " + refusal(unit, unit).value_or(because(of_any_type)).first();
    return r;
  }
  r.kind = is_contraction(first.kind) ? Kind::contraction : Kind::epilogue;
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
    for (std::size_t i = n; i-- > 0;)
      if (is_contraction(op(i).kind)) grow(i);
    for (std::size_t i = 0; i < n; ++i)
      if (unit_[i] == i && (is_pointwise(op(i).kind) || (maps_ && is_map(op(i).kind) && has_number_types(op(i)))))
        grow(i);
  }
  FusedNetwork f;
  for (const std::size_t u : unit_order()) f.regions.push_back(region(u));
  f.network = std::move(network_);
  return f;
}

}  // namespace

FusedNetwork fuse(const Network& network, bool fuse, const MemoryStyle& style) {
  const Network& plain = fuse && style.attention ? with_attention(network) : network;
  const Network& given = style.volumes ? stacked_volumes(plain) : plain;
  FusedNetwork f = Fuser(legalise(given, fuse && style.upsamples), fuse, style.maps).run();
  if (fuse && style.column_ranges) {
    Stacked stacked = stack_products(f.network, f.regions, style);
    if (stacked.network) f = Fuser(std::move(*stacked.network), fuse, style.maps).run();
    note_stacked(stacked, f.network, f.regions);
  }
  f.style = style;
  if (fuse && style.resampled_stores) fold_resampling(f);
  if (fuse && style.heads) fold_heads(f);
  choose_memory_types(f);
  place(f);
  return f;
}

}  // namespace unisono::network
