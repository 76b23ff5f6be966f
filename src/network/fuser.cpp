/// Cuts a network into regions: one contraction and everything after it that can join as one epilogue graph.
///
/// Every operator starts as a unit of its own. Contractions, last first, then pointwise operators that are left over,
/// first first, take in the pointwise operators after them. An operator joins if one of its inputs is made by the
/// region, its result has the region's shape, and its other inputs can be ready before the region starts: no path leads
/// from the region through another unit back to it. Tensors that others need too become further outputs.

#include "network/fuser.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "network/chains.hpp"
#include "network/dim.hpp"
#include "network/dual_products.hpp"
#include "network/islands.hpp"
#include "network/names.hpp"
#include "network/positions.hpp"
#include "network/short_borders.hpp"
#include "network/space.hpp"
#include "support/dtypes.hpp"

namespace unisono::network {

namespace {

constexpr std::size_t largest_region = 200;     // operators
constexpr std::size_t largest_map_region = 15;  // a kernel has all tensors of so many
constexpr std::size_t search_budget = 1 << 14;  // operators visited to prove that a join makes no cycle

bool is_map_of(MapOp which, const Operator& op) {
  const auto* map = std::get_if<operators::Map>(&op.kind);
  return map != nullptr && map->op == which;
}

}  // namespace

Fuser::Fuser(Network network, bool fuse, const MemoryStyle& style, const std::vector<std::vector<std::size_t>>& chains)
    : network_(std::move(network)),
      fuse_(fuse),
      maps_(style.maps),
      dual_multiple_(fuse && style.dual_products ? style.column_multiple : 0) {
  index();
  positions_ = style.element_bytes == 0 ? std::vector<bool>(network_.tensors.size(), false) : positions(network_);
  for (const auto& chain : chains) {
    const std::size_t unit = chain.front();
    chains_.insert(unit);
    members_[unit] = chain;
    for (const std::size_t i : chain) {
      if (i != unit) members_[i].clear();
      unit_[i] = unit;
    }
    note_extent(unit);
  }
}

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
    last_.push_back(i);
  }
}

// The unit has a new member
void Fuser::note_extent(std::size_t unit) {
  const auto [first, last] = std::ranges::minmax(members_[unit]);
  for (std::size_t i = first; last_[i] < last; ++i) last_[i] = last;  // they never fall from one operator to the next
}

// Whether the unit and all that it needs, also through other units, stand before this operator. A unit that begins
// before the given one may end behind it: all is before a place that no unit crosses.
bool Fuser::stands_before(std::size_t unit, std::size_t position) const {
  std::size_t i = std::ranges::max(members_[unit]);
  while (i < position && last_[i] > i) i = last_[i];
  return i < position;
}

// Whether `unit` needs a result of `target`, directly or through other units. Gives up with "yes" on a long search.
bool Fuser::depends_on(std::size_t unit, std::size_t target) const {
  const std::size_t earliest = std::ranges::min(members_[target]);
  std::vector<std::size_t> stack{unit};
  std::set<std::size_t> seen{unit};
  std::size_t visited = 0;
  while (!stack.empty()) {
    const std::size_t u = stack.back();
    stack.pop_back();
    if (u == target) return true;
    if (stands_before(u, earliest)) continue;
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
  if (is_contraction(c.kind)) return because("is another contraction");
  if (std::holds_alternative<operators::Concat>(c.kind)) return because("joins tensors");
  if (std::holds_alternative<operators::Pool2d>(c.kind)) return because("reads windows of pixels");
  if (is_map(c.kind) && !(may_map(seed) && has_number_types(c))) return because(of_any_type);
  if (std::holds_alternative<operators::Reduce>(c.kind) || std::holds_alternative<operators::ArgReduce>(c.kind))
    return because("reduces axes");
  if (std::holds_alternative<operators::MatMul>(c.kind)) return because("multiplies batches of matrices");
  if (std::holds_alternative<operators::Attention>(c.kind)) return because("is attention");
  if (!is_pointwise(c.kind) && !is_map(c.kind)) return because("changes shape or order");
  if (!fuse_) return because("is not fused: fusion is off");
  if (!(shape(candidate) == shape(seed)))
    return because(fmt::format("has shape {}, the region {}", to_string(shape(candidate)), to_string(shape(seed))));
  if (members_[seed].size() >= largest_region)
    return because(fmt::format("does not fit: the region has {} operators already", largest_region));
  if (auto why = refused_beside(c, seed)) return why;
  if (auto why = refused_position(c, seed)) return why;
  if (auto why = refused_island(c, seed)) return why;
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
  return because(fmt::format("does not fit: the region has {} operators already", members_[seed].size()));
}

bool Fuser::computes_elements(std::size_t unit) const {
  return std::ranges::all_of(members_[unit], [&](std::size_t m) {
    return is_map(op(m).kind) || std::holds_alternative<operators::Elementwise>(op(m).kind);
  });
}

bool Fuser::touches_position(const Operator& o) const {
  return positions_[o.output] || std::ranges::any_of(o.inputs, [&](TensorId id) { return bool{positions_[id]}; });
}

// Positions are f32 in memory, which only kernels that compute element by element read and write, and few tensors of it
std::optional<Refusal> Fuser::refused_position(const Operator& c, std::size_t seed) const {
  const bool is_beside = std::ranges::any_of(members_[seed], [&](std::size_t m) { return touches_position(op(m)); });
  if (!touches_position(c) && !is_beside) return std::nullopt;
  if (!computes_elements(seed) && touches_position(c))
    return because("computes with positions, which 16 bits do not hold exactly");
  if (!is_map(c.kind) && !std::holds_alternative<operators::Elementwise>(c.kind))
    return because("normalises, and the region computes positions element by element");
  if (members_[seed].size() < largest_map_region) return std::nullopt;
  return because(fmt::format("does not fit: the region has {} operators already", members_[seed].size()));
}

bool Fuser::touches_island(const Operator& o) const {
  return network_[o.output].keeps_f32 ||
         std::ranges::any_of(o.inputs, [&](TensorId id) { return network_[id].keeps_f32; });
}

// Kernels over epilogue graphs store an island's f32 in rows of octets, and kernels that compute element by element in
// any; those of contractions know the element alone
std::optional<Refusal> Fuser::refused_island(const Operator& c, std::size_t seed) const {
  const bool is_beside = std::ranges::any_of(members_[seed], [&](std::size_t m) { return touches_island(op(m)); });
  if (!touches_island(c) && !is_beside) return std::nullopt;
  if (is_contraction(op(seed).kind)) return because("computes with values that the model keeps in f32");
  if (has_octets(shape(seed))) return std::nullopt;
  const bool computes = is_map(c.kind) || std::holds_alternative<operators::Elementwise>(c.kind);
  if (!computes || !computes_elements(seed))
    return because("normalises, and the region has values that the model keeps in f32, in rows of no octets");
  if (members_[seed].size() < largest_map_region) return std::nullopt;
  return because(fmt::format("does not fit: the region has {} operators already", members_[seed].size()));
}

// An operand of operators on elements of any type broadcasts in whichever way
std::optional<Refusal> Fuser::refused_operand(std::size_t candidate, std::size_t input, std::size_t seed) const {
  const Operator& c = op(candidate);
  const TensorId id = c.inputs[input];
  const std::size_t p = producer_[id];
  const bool inside = p != none && unit_[p] == seed;
  const bool broadcasts = may_map(seed) && (is_map(c.kind) || is_mapped(seed));
  if (std::holds_alternative<operators::Normalisation>(c.kind) && input > 0) {
    if (inside) return because(fmt::format("has a scale or shift '{}' that is made here", network_[id].name));
  } else if (const bool images = !is_contraction(op(seed).kind) || shape(seed).size() == 4;
             !inside && !broadcasts && !axes_of(network_[id].shape, shape(seed), images)) {
    return because(fmt::format("reads '{}' {}, which has no axes over {}", network_[id].name,
                               to_string(network_[id].shape), to_string(shape(seed))));
  }
  if (!inside && p != none && depends_on(unit_[p], seed))
    return because(fmt::format("also reads '{}', which needs this region's result", network_[id].name));
  return std::nullopt;
}

bool Fuser::is_mapped(std::size_t unit) const {
  return may_map(unit) && std::ranges::any_of(members_[unit], [&](std::size_t m) { return is_map(op(m).kind); });
}

// Whether a region may take in an operator on elements of any type: one of such operators, and elementwise ones
bool Fuser::may_map(std::size_t unit) const { return maps_ && computes_elements(unit); }

// No operator computes with floats of 16 bits. What converts them stands by itself, as at the border the tensor may lie
// in memory as another type.
bool Fuser::has_number_types(const Operator& o) const {
  const auto is_number = [&](TensorId id) { return !support::is_short_float(network_[id].dtype); };
  return is_number(o.output) && std::ranges::all_of(o.inputs, is_number);
}

bool Fuser::joins(std::size_t candidate, std::size_t seed) {
  if (unit_[candidate] != candidate || members_[candidate].size() != 1) return false;
  const auto& inputs = op(candidate).inputs;
  const bool reads = std::any_of(inputs.begin(), inputs.end(),
                                 [&](TensorId id) { return producer_[id] != none && unit_[producer_[id]] == seed; });
  return reads && !refusal(candidate, seed);
}

void Fuser::pair_products() {
  if (dual_multiple_ == 0) return;
  for (const auto& [first, second] : dual_products(network_, dual_multiple_)) {
    unit_[second] = first, second_[first] = second;
    members_[first].push_back(second), members_[second].clear();
    note_extent(first);
  }
}

void Fuser::grow(std::size_t seed) {
  std::set<std::size_t> candidates;
  for (const std::size_t m : members_[seed])
    candidates.insert(users_[op(m).output].begin(), users_[op(m).output].end());
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
  note_extent(seed);
  candidates.insert(users_[op(candidate).output].begin(), users_[op(candidate).output].end());
}

// A choice by comparisons and logic that are made for it alone, with these, if all of them join: no bool is stored
std::vector<std::size_t> Fuser::with_conditions(std::size_t candidate, std::size_t seed) const {
  if (!fuse_ || may_map(seed) || !is_map_of(MapOp::select, op(candidate))) return {};
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
    if (touches_position(op(i)) || touches_island(op(i))) return {};
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
    if (touches_position(o) || touches_island(o)) return {};
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

namespace {

// Where all is stored in f32, an island is nothing special
Network without_islands(Network n) {
  for (NetworkTensor& t : n.tensors) t.keeps_f32 = false;
  return n;
}

// What is launched beside contractions, once it is known what that is
FusedNetwork with_chains(FusedNetwork f, const MemoryStyle& style) {
  f.style = style;
  choose_memory_types(f);
  FusedNetwork placed = f;
  place(placed);
  Chained chained = find_chains(placed);
  return chained.chains.empty() ? std::move(f) : Fuser(std::move(chained.network), true, style, chained.chains).run();
}

}  // namespace

FusedNetwork fuse(const Network& caller, bool fuse, const MemoryStyle& style) {
  const bool has_element = style.element_bytes != 0;
  const bool has_norms = fuse && style.norm_gradients > 0;
  const Network assigned = with_assigned_ranges(has_norms ? with_norm_gradients(caller, style.norm_gradients) : caller);
  const Network& network = has_element ? with_short_borders(assigned, style.element) : assigned;
  const Network& typed = has_element ? with_roundings(network, style.element) : without_islands(network);
  const Network& plain =
      fuse && style.widest_head > 0
          ? with_attention(with_factors_of_queries(has_element ? with_channels_apart(typed) : typed), style.widest_head,
                           has_element ? kept_in_f32(typed, style.element) : std::vector<bool>{})
          : typed;
  const Network& normed = fuse && has_element ? with_channel_norms(plain) : plain;
  const Network& simple = fuse ? simpler_convolutions(with_own_padding(normed), style.volumes) : normed;
  const Network& given = style.volumes ? stacked_volumes(simple) : simple;
  Network legal = legalise(given, fuse && style.upsamples);
  if (has_element) legal = with_exact_products(std::move(legal));
  if (fuse && style.chains) legal = with_small_products(legal);
  if (fuse && style.dual_products) legal = with_parts_of_products(std::move(legal), style.column_multiple);
  const auto fused = [&](const Network& n) { return Fuser(n, fuse, style).run(); };
  if (has_element) legal = with_islands(std::move(legal), style.element, fused);
  FusedNetwork f = fused(legal);
  Stacked stacked;
  if (fuse && style.column_ranges) stacked = stack_products(f.network, f.regions, style);
  if (stacked.network) f = fused(*stacked.network);
  while (has_element) {  // each copy has a reader that reads a position no more
    auto copied = with_rounded_copies(f);
    if (!copied) break;
    f = fused(*copied);
  }
  if (fuse && style.chains) f = with_chains(std::move(f), style);
  note_stacked(stacked, f.network, f.regions);
  f.style = style;
  if (fuse && style.resampled_stores) fold_resampling(f);
  choose_memory_types(f);
  if (fuse && style.reductions) fold_reductions(f);
  place(f);
  if (fuse && style.small_layers) find_small_layers(f);
  return f;
}

}  // namespace unisono::network
