/// Regions that no kernel of a GPU serves.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "network/cuda/decide/passes.hpp"
#include "network/cuda/decide/served_graph.hpp"
#include "network/cuda/decide/served_single.hpp"
#include "network/cuda/tensor/operators.hpp"
#include "network/space.hpp"

namespace unisono::network::gpu {

namespace {

// What kernels of the element read in it: attention reads its masks in f32, too
std::span<const TensorId> read_in_element(const Operator& op) {
  const auto ids = data_inputs(op);
  return std::holds_alternative<operators::Attention>(op.kind) ? ids.first(3) : ids;
}

// A tensor of a region that does not lie in memory in the element, which is all that plain kernels know
std::optional<TensorId> typed_tensor(const PlanningInput& in, const Region& r) {
  if (std::holds_alternative<operators::NormGradient>(in.first(r).kind)) return std::nullopt;
  const auto is_typed = [&](TensorId id) {
    return in.is_constant(id) ? in.net()[id].dtype != DType::f32 : bool{in.fused.own_type[id]};
  };
  std::vector<TensorId> made;
  for (const std::size_t i : r.operators) {
    for (const TensorId id : read_in_element(in.net().operators[i]))
      if (std::ranges::find(made, id) == made.end() && is_typed(id)) return id;
    made.push_back(in.net().operators[i].output);
  }
  // a filter's gradient is stored in either type, and a normalisation's read, too
  if (std::holds_alternative<operators::FilterGradient>(in.first(r).kind)) return std::nullopt;
  for (const RegionOutput& o : r.outputs)
    if (is_typed(o.tensor)) return o.tensor;
  return std::nullopt;
}

std::optional<Refusal> plan_tensors(plan::Expected<TensorLaunches> made, RegionPlan& plan) {
  if (!made) return std::move(made).refusal();
  plan.tensors = *std::move(made);
  return std::nullopt;
}

// An operator, or several that compute element by element
plan::Expected<TensorLaunches> launches_alone(const PlanningInput& in, const Region& r) {
  return r.operators.size() == 1 ? tensor_launches(in, in.first(r)) : tensor_launches(in, r);
}

// Tensors of f32, some of which lie in memory in the element and some as they are
std::optional<Refusal> refuse_two_types(const PlanningInput& in, const Operator& op) {
  if (converts(op.kind)) return std::nullopt;
  const auto is_f32 = [&](TensorId id) { return in.net()[id].dtype == DType::f32; };
  for (const TensorId id : data_inputs(op))
    if (!in.is_constant(id) && is_f32(id) && is_f32(op.output) && in.fused.own_type[id] != in.fused.own_type[op.output])
      return because(fmt::format("'{}' and '{}' have two types in memory", in.name(id), in.name(op.output)));
  return std::nullopt;
}

// Graphs over tensors of which some are f32: octets of them must lie together
std::optional<Refusal> refuse_octets(const PlanningInput& in, const Region& r) {
  const auto refuse = [&](TensorId id) {
    return because(fmt::format("'{}' is stored in f32, and not in rows of octets", in.name(id)));
  };
  const auto lies_apart = [&](TensorId id) {
    if (!in.fused.own_type[id]) return false;
    const PitchedTensor t = in.tensor(id);
    return t.type != DType::f32 || t.pitch % 8 != 0 || t.at.offset % 32 != 0;
  };
  if (column_count(in.sizes(in.first(r).output)) % 8 != 0) return refuse(r.outputs[0].tensor);
  if (r.source && lies_apart(*r.source)) return refuse(*r.source);
  for (const RegionOutput& o : r.outputs)
    if (lies_apart(o.tensor)) return refuse(o.tensor);
  for (const RegionOperand& o : r.operands) {
    if (!in.fused.own_type[o.tensor]) continue;
    const bool is_gathered = !pitched_rows(view_of(in, o, in.first(r)), o.axes);
    if (is_gathered || (o.axes == axes::mn && lies_apart(o.tensor))) return refuse(o.tensor);
  }
  return std::nullopt;
}

// By a tensor kernel, which computes element by element, or else by those of its graph
std::optional<Refusal> plan_epilogue(const PlanningInput& in, const Region& r, RegionPlan& plan) {
  auto why = plan_tensors(tensor_launches(in, r), plan);
  if (!why) return std::nullopt;
  if (auto apart = refuse_octets(in, r)) return apart;
  return refuse_graph(in, r, r.source && in.fused.own_type[*r.source] ? DType::f32 : in.element);
}

// Only tensor kernels know other types than the element, and those over graphs f32
std::optional<Refusal> refuse_typed(const PlanningInput& in, const Region& r, TensorId typed, RegionPlan& plan) {
  switch (r.kind) {
    case RegionReport::Kind::contraction:
      return because(fmt::format("tensor '{}' is of {}", in.name(typed), to_string(in.net()[typed].dtype)));
    case RegionReport::Kind::epilogue: return plan_epilogue(in, r, plan);
    default:
      if (auto why = r.operators.size() == 1 ? refuse_two_types(in, in.first(r)) : std::nullopt) return why;
      return plan_tensors(launches_alone(in, r), plan);
  }
}

// Plans the kernels of what runs by itself
std::optional<Refusal> refuse_single(const PlanningInput& in, const Region& r, RegionPlan& plan) {
  if (r.operators.size() == 1 && has_plain_kernel(in, in.first(r))) return std::nullopt;
  return plan_tensors(launches_alone(in, r), plan);
}

std::optional<Refusal> refuse_first(const PlanningInput& in, const Region& r, RegionPlan& plan) {
  switch (r.kind) {
    case RegionReport::Kind::contraction: return std::nullopt;
    case RegionReport::Kind::epilogue: return refuse_graph(in, r, in.element);
    default: return refuse_single(in, r, plan);
  }
}

std::optional<Unserved> wanted_on_host(const PlanningInput& in, const Region& r) {
  for (const std::size_t i : r.operators)
    if (const std::string kind = to_string(in.net().operators[i].kind);
        std::ranges::find(in.on_host, kind) != in.on_host.end())
      return Unserved{i, because(fmt::format("UNISONO_HOST_STEPS names {}", kind))};
  return std::nullopt;
}

std::optional<Unserved> unserved(const PlanningInput& in, const Region& r, RegionPlan& plan) {
  if (!in.is_launched(r)) return std::nullopt;
  if (auto wanted = wanted_on_host(in, r)) return wanted;
  const auto typed = typed_tensor(in, r);
  if (auto why = typed ? refuse_typed(in, r, *typed, plan) : refuse_first(in, r, plan))
    return Unserved{r.operators[0], *std::move(why)};
  return std::nullopt;
}

// Why there are no kernels for an epilogue that is not computed with its contraction
std::optional<Unserved> unserved_apart(const PlanningInput& in, const Region& r,
                                       const std::optional<ContractionPlan>& plan) {
  if (!plan || plan->whole) return std::nullopt;
  if (r.second) return Unserved{r.operators[0], *plan->not_whole};
  if (auto why = refuse_graph(in, r, plan->bare ? in.element : DType::f32))
    return Unserved{r.operators[0], *std::move(why)};
  return std::nullopt;
}

}  // namespace

void find_unserved(const PlanningInput& in, NetworkPlan& plan) {
  for (std::size_t i = 0; i < plan.regions.size(); ++i)
    if (!in.is_empty(in.first(in.region(i)).output)) plan.regions[i].host = unserved(in, in.region(i), plan.regions[i]);
}

void find_unserved_epilogues(const PlanningInput& in, NetworkPlan& plan) {
  for (std::size_t i = 0; i < plan.regions.size(); ++i) {
    const Region& r = in.region(i);
    RegionPlan& own = plan.regions[i];
    auto found = unserved_apart(in, r, own.contraction);
    if (!found) continue;
    own = RegionPlan{};
    own.host = std::move(found);
    plan.im2col_inputs.erase(in.first(r).inputs[0]);  // the host reads it as it is
  }
}

}  // namespace unisono::network::gpu
