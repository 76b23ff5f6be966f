/// Which regions without kernels run on the host together, and which tensors cross between them and the kernels.

#include <algorithm>
#include <set>

#include "network/cuda/decide/passes.hpp"

namespace unisono::network::gpu {

namespace {

using Operators = std::set<std::size_t>;  // by index

bool contains(const std::vector<TensorId>& list, TensorId id) { return std::ranges::find(list, id) != list.end(); }

void add_once(std::vector<TensorId>& list, TensorId id) {
  if (!contains(list, id)) list.push_back(id);
}

// Operators whose regions are free because a contraction's region computes them
Operators made_beside(const PlanningInput& in) {
  Operators operators;
  for (const Region& r : in.fused.regions)
    for (const ResampledStore& s : r.resampled) operators.insert(s.op);
  return operators;
}

// The operators of a group's regions
struct Members {
  Operators computed;  ///< by regions on the host
  Operators free;      ///< views and concatenations of what these make: in the memory of kernels they cost nothing
  bool contain(std::size_t op) const { return computed.contains(op) || free.contains(op); }
};

class HostGroups {
 public:
  HostGroups(const PlanningInput& in, NetworkPlan& plan) : in_(in), plan_(plan), beside_(made_beside(in)) {
    makers_.resize(in.net().tensors.size());
    readers_.resize(in.net().tensors.size());
    for (std::size_t i = 0; i < in.net().operators.size(); ++i) {
      makers_[op(i).output] = i;
      if (in.is_empty(op(i).output)) continue;
      for (const TensorId id : data_inputs(op(i))) readers_[id].push_back(i);
    }
  }

  void run() {
    for (const HostGroup& group : plan_.host_groups) members_.push_back(members_of(group));
    for (const Members& m : members_) computed_.insert(m.computed.begin(), m.computed.end());
    for (std::size_t k = 0; k < members_.size(); ++k) {
      HostGroup& group = plan_.host_groups[k];
      find_outputs(members_[k], group);
      keep_live(members_[k], group);
      find_inputs(group);
    }
    find_host_only();
  }

 private:
  Members members_of(const HostGroup& group) const;
  void find_outputs(const Members& members, HostGroup& group) const;
  void need(const Members& members, HostGroup& group, TensorId id, bool by_kernels) const;
  void keep_live(const Members& members, HostGroup& group) const;
  void find_inputs(HostGroup& group) const;
  void find_host_only();
  const Operator& op(std::size_t i) const { return in_.net().operators[i]; }
  bool is_made_by(const Operators& operators, TensorId id) const {
    return makers_[id] && operators.contains(*makers_[id]);
  }
  bool is_f32(TensorId id) const { return in_.net()[id].dtype == DType::f32; }

  const PlanningInput& in_;
  NetworkPlan& plan_;
  const Operators beside_;
  std::vector<std::optional<std::size_t>> makers_;  // by tensor: the operator; of inputs and constants none
  std::vector<std::vector<std::size_t>> readers_;   // by tensor: operators that make elements
  std::vector<Members> members_;                    // by group
  Operators computed_;                              // by regions on the host, of all groups
};

// What is made beside the results of a region on the host belongs to it; a free region if it reads what the group makes
Members HostGroups::members_of(const HostGroup& group) const {
  Members m;
  const auto take = [&](const std::vector<std::size_t>& operators) {
    m.computed.insert(operators.begin(), operators.end());
  };
  for (std::size_t i = group.first; i <= group.last; ++i) {
    const Region& r = in_.region(i);
    const std::size_t first = r.operators[0];
    const auto is_made_here = [&](TensorId id) { return makers_[id] && m.contain(*makers_[id]); };
    if (plan_.regions[i].host) {
      take(r.operators);
      for (const ResampledStore& s : r.resampled) m.computed.insert(s.op);
    } else if (r.kind == RegionReport::Kind::free && !beside_.contains(first) &&
               std::ranges::any_of(data_inputs(op(first)), is_made_here)) {
      m.free.insert(first);
    }
  }
  return m;
}

// What others read of the group's results: kernels, other steps, the caller
void HostGroups::find_outputs(const Members& members, HostGroup& group) const {
  const auto& outputs = in_.net().outputs;
  const auto look_at = [&](std::size_t i) {
    const TensorId id = op(i).output;
    if (contains(outputs, id)) need(members, group, id, members.free.contains(i));
    for (const std::size_t reader : readers_[id])
      if (!members.contain(reader)) need(members, group, id, !computed_.contains(reader));
  };
  for (const std::size_t i : members.computed) look_at(i);
  for (const std::size_t i : members.free) look_at(i);
}

// What is free lies in the memory of kernels with the tensors that it is made of
void HostGroups::need(const Members& members, HostGroup& group, TensorId id, bool by_kernels) const {
  if (!makers_[id] || !members.contain(*makers_[id])) return;
  if (members.free.contains(*makers_[id])) {
    for (const TensorId part : data_inputs(op(*makers_[id]))) need(members, group, part, true);
    return;
  }
  add_once(group.outputs, id);
  if (by_kernels) add_once(group.to_kernels, id);
}

void HostGroups::keep_live(const Members& members, HostGroup& group) const {
  std::set<TensorId> needed(group.outputs.begin(), group.outputs.end());
  Operators all = members.computed, live;
  all.insert(members.free.begin(), members.free.end());
  for (auto i = all.rbegin(); i != all.rend(); ++i) {
    if (!needed.contains(op(*i).output)) continue;
    live.insert(*i);
    const auto inputs = data_inputs(op(*i));
    needed.insert(inputs.begin(), inputs.end());
  }
  group.operators.assign(live.begin(), live.end());
}

void HostGroups::find_inputs(HostGroup& group) const {
  const Operators own(group.operators.begin(), group.operators.end());
  const auto comes_from_outside = [&](TensorId id) { return !in_.is_constant(id) && !is_made_by(own, id); };
  for (const std::size_t i : own)
    for (const TensorId id : data_inputs(op(i))) {
      if (!comes_from_outside(id)) continue;
      add_once(group.inputs, id);
      if (makers_[id] && !is_made_by(computed_, id)) add_once(group.from_kernels, id);
    }
  for (const std::size_t i : own)
    for (const TensorId id : op(i).inputs)
      if (comes_from_outside(id) && !contains(group.inputs, id)) add_once(group.shapes, id);
}

// The caller's tensors that only steps read and make. Views and concatenations of them may lie in the memory of
// kernels, too.
void HostGroups::find_host_only() {
  const auto& outputs = in_.net().outputs;
  const auto is_computed = [&](std::size_t reader) { return computed_.contains(reader); };
  for (const TensorId id : in_.net().inputs)
    if (!contains(outputs, id) && std::ranges::all_of(readers_[id], is_computed)) plan_.host_only.insert(id);
  for (const TensorId id : outputs)
    if (is_made_by(computed_, id)) plan_.host_only.insert(id);
}

// Regions on the host with nothing that is launched between them
std::vector<HostGroup> host_ranges(const PlanningInput& in, const NetworkPlan& plan) {
  std::vector<HostGroup> groups;
  bool open = false;
  for (std::size_t i = 0; i < plan.regions.size(); ++i) {
    const bool is_host = plan.regions[i].host.has_value();
    if (!is_host && !in.is_launched(in.region(i))) continue;
    if (is_host && open) groups.back().last = i;
    if (is_host && !open) groups.push_back({.first = i, .last = i});
    open = is_host;
  }
  return groups;
}

}  // namespace

void group_host_regions(const PlanningInput& in, NetworkPlan& plan) {
  plan.host_groups = host_ranges(in, plan);
  if (!plan.host_groups.empty()) HostGroups(in, plan).run();
}

}  // namespace unisono::network::gpu
