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

bool is_contraction(const OperatorKind& k) {
  return is_conv2d(k) || std::holds_alternative<operators::ConvTranspose2d>(k) ||
         std::holds_alternative<operators::Gemm>(k);
}

std::span<const TensorId> data_inputs(const Operator& op) {
  const std::span<const TensorId> all(op.inputs);
  if (std::holds_alternative<operators::ShapeOf>(op.kind)) return {};
  const auto& k = op.kind;
  const bool like = std::holds_alternative<operators::Expand>(k) || std::holds_alternative<operators::ReshapeLike>(k) ||
                    std::holds_alternative<operators::Resize>(k) || std::holds_alternative<operators::Resample>(k);
  return like ? all.first(1) : all;
}

bool is_pointwise(const OperatorKind& k) {
  return std::holds_alternative<operators::Elementwise>(k) || std::holds_alternative<operators::Normalisation>(k) ||
         std::holds_alternative<operators::Softmax>(k);
}

namespace {

constexpr std::size_t largest_region = 200;     // operators
constexpr std::size_t search_budget = 1 << 14;  // operators visited to prove that a join makes no cycle

class Fuser {
 public:
  Fuser(Network network, bool fuse) : network_(std::move(network)), fuse_(fuse) { index(); }
  FusedNetwork run();

 private:
  void index();
  void grow(std::size_t seed);
  bool joins(std::size_t candidate, std::size_t seed);
  std::optional<Refusal> refusal(std::size_t candidate, std::size_t seed);
  Refusal refused_user(std::size_t user, std::size_t seed);
  bool depends_on(std::size_t unit, std::size_t target) const;
  std::vector<std::size_t> unit_order() const;
  Region region(std::size_t unit);
  std::string end_note(const Region& r, const std::vector<TensorId>& stored);
  std::vector<TensorId> stored_tensors(const std::vector<std::size_t>& members) const;
  const Operator& op(std::size_t i) const { return network_.operators[i]; }
  const Shape& shape(std::size_t i) const { return network_[op(i).output].shape; }

  Network network_;
  bool fuse_;
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
  if (std::holds_alternative<operators::Map>(c.kind))
    return because("compares, chooses, rounds or converts, or is of another type than f32");
  if (std::holds_alternative<operators::Reduce>(c.kind) || std::holds_alternative<operators::ArgReduce>(c.kind))
    return because("reduces axes");
  if (std::holds_alternative<operators::MatMul>(c.kind)) return because("multiplies batches of matrices");
  if (std::holds_alternative<operators::Attention>(c.kind)) return because("is attention");
  if (!is_pointwise(c.kind)) return because("changes shape or order");
  if (!fuse_) return because("fusion is off");
  if (!(shape(candidate) == shape(seed)))
    return because(fmt::format("has shape {}, the region {}", to_string(shape(candidate)), to_string(shape(seed))));
  if (members_[seed].size() >= largest_region)
    return because(fmt::format("the region has {} operators already", largest_region));
  const bool images = !is_contraction(op(seed).kind) || shape(seed).size() == 4;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    const TensorId id = c.inputs[i];
    const std::size_t p = producer_[id];
    const bool inside = p != none && unit_[p] == seed;
    if (std::holds_alternative<operators::Normalisation>(c.kind) && i > 0) {
      if (inside) return because(fmt::format("its scale or shift '{}' is made here", network_[id].name));
    } else if (!inside && !axes_of(network_[id].shape, shape(seed), images)) {
      return because(fmt::format("its operand '{}' {} has no axes over {}", network_[id].name,
                                 to_string(network_[id].shape), to_string(shape(seed))));
    }
    if (!inside && p != none && depends_on(unit_[p], seed))
      return because(fmt::format("its operand '{}' needs this region's result", network_[id].name));
  }
  return std::nullopt;
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
    if (!joins(c, seed)) continue;
    unit_[c] = seed;
    members_[seed].push_back(c);
    members_[c].clear();
    candidates.insert(users_[op(c).output].begin(), users_[op(c).output].end());
  }
  std::sort(members_[seed].begin(), members_[seed].end());
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
  const std::vector<TensorId> stored = stored_tensors(r.operators);
  const Operator& first = op(unit);
  if (!is_contraction(first.kind) && !is_pointwise(first.kind)) {
    r.kind = Kind::single;
    r.outputs.push_back({"y", first.output});
    r.note = "no part of an epilogue: it " + refusal(unit, unit)->first();
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
      if (unit_[i] == i && is_pointwise(op(i).kind)) grow(i);
  }
  FusedNetwork f;
  for (const std::size_t u : unit_order()) f.regions.push_back(region(u));
  f.network = std::move(network_);
  return f;
}

}  // namespace

FusedNetwork fuse(const Network& network, bool fuse, const MemoryStyle& style) {
  const bool attends = fuse && style.attention;
  FusedNetwork f = Fuser(legalise(attends ? with_attention(network) : network, fuse && style.upsamples), fuse).run();
  if (fuse && style.column_ranges) {
    Stacked stacked = stack_products(f.network, f.regions, style);
    if (stacked.network) f = Fuser(std::move(*stacked.network), fuse).run();
    for (Region& r : f.regions) {
      const std::string& name = f.network[r.outputs[0].tensor].name;
      if (const auto wide = stacked.wide.find(name); wide != stacked.wide.end()) r.note = wide->second;
      if (const auto alone = stacked.alone.find(name); alone != stacked.alone.end())
        r.note += (r.note.empty() ? "" : "; ") + alone->second;
    }
  }
  f.style = style;
  if (fuse && style.resampled_stores) fold_resampling(f);
  if (fuse && style.heads) fold_heads(f);
  place(f);
  return f;
}

}  // namespace unisono::network
