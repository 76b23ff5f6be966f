/// Values that descend from integers. A step of a diffusion process, 999, is 1000 in bf16, and its sine another:
/// kernels, which find tensors in 16 bits, would be wrong by as much as the value.

#include <fmt/format.h>

#include <algorithm>

#include "network/cuda/decide/passes.hpp"

namespace unisono::network::gpu {

namespace {

// Integers of 8 bits, and bool, are exact in 16 bits
bool is_wide_integer(DType t) { return !is_float(t) && size_of(t) > 1; }

class Descent {
 public:
  Descent(const PlanningInput& in, NetworkPlan& plan)
      : in_(in), plan_(plan), descends_(in.net().tensors.size(), false) {}

  // Regions stand in an order in which each comes behind those that it reads
  void run() {
    for (std::size_t i = 0; i < plan_.regions.size(); ++i) {
      const Region& r = in_.region(i);
      std::optional<Unserved>& host = plan_.regions[i].host;
      if (!host && in_.is_launched(r) && !needs_tensor_cores(r)) host = refuse_rounding(r);
      const bool is_exact = host || r.kind == RegionReport::Kind::free;
      for (const std::size_t op : r.operators) descends_[output_of(op)] = is_exact && reads_descendants(op);
    }
  }

 private:
  TensorId output_of(std::size_t op) const { return in_.net().operators[op].output; }

  // What the host has no operator for, or takes far too long for
  bool needs_tensor_cores(const Region& r) const {
    return r.kind == RegionReport::Kind::contraction || std::holds_alternative<operators::Attention>(in_.first(r).kind);
  }

  // Whether the operator's result is made of integers, or of floats that are. Indices say where a value lies, and not
  // what it is.
  bool reads_descendants(std::size_t op) const {
    const Operator& o = in_.net().operators[op];
    const auto* map = std::get_if<operators::Map>(&o.kind);
    if (map != nullptr && map->op == MapOp::cast && is_wide_integer(in_.net()[o.inputs[0]].dtype)) return true;
    bool any = false;
    for (const TensorId id : data_inputs(o)) {
      if (in_.is_constant(id) || !is_float(in_.net()[id].dtype)) continue;
      if (!descends_[id]) return false;
      any = true;
    }
    return any;
  }

  // Where all that the region reads descends from integers
  std::optional<Unserved> refuse_rounding(const Region& r) const {
    std::optional<TensorId> first;
    std::vector<TensorId> made;
    for (const std::size_t op : r.operators) {
      for (const TensorId id : data_inputs(in_.net().operators[op])) {
        if (in_.is_constant(id) || std::ranges::find(made, id) != made.end()) continue;
        if (!descends_[id]) return std::nullopt;
        if (!first) first = id;
      }
      made.push_back(output_of(op));
    }
    if (!first) return std::nullopt;
    return Unserved{
        r.operators[0],
        because(fmt::format("'{}' descends from integers, of which 16 bits hold too few digits", in_.name(*first)))};
  }

  const PlanningInput& in_;
  NetworkPlan& plan_;
  std::vector<bool> descends_;  // by tensor
};

}  // namespace

void keep_integers_exact(const PlanningInput& in, NetworkPlan& plan) { Descent(in, plan).run(); }

}  // namespace unisono::network::gpu
