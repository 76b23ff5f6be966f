/// Regions that no kernel of a GPU serves.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "network/cuda/decide/passes.hpp"
#include "network/cuda/decide/served_graph.hpp"
#include "network/cuda/decide/served_single.hpp"

namespace unisono::network::gpu {

namespace {

// Whether the operator is a cast between f32 and a tensor of 16 bits that the caller gives or takes: kernels have
// either in their own 16 bits
bool is_cast_at_border(const PlanningInput& in, const Operator& op) {
  const auto* map = std::get_if<operators::Map>(&op.kind);
  if (map == nullptr || map->op != MapOp::cast) return false;
  const auto is_one_of = [](const std::vector<TensorId>& list, TensorId id) {
    return std::ranges::find(list, id) != list.end();
  };
  const auto is_of_16_bits = [&](TensorId id) {
    return is_float(in.net()[id].dtype) && size_of(in.net()[id].dtype) == 2;
  };
  const auto is_f32 = [&](TensorId id) { return in.net()[id].dtype == DType::f32; };
  const TensorId from = op.inputs[0], to = op.output;
  return (is_f32(to) && is_of_16_bits(from) && is_one_of(in.net().inputs, from)) ||
         (is_f32(from) && is_of_16_bits(to) && is_one_of(in.net().outputs, to));
}

// Constants of other types are read by operators without a kernel alone
std::optional<Refusal> refuse_types(const PlanningInput& in, const Operator& op) {
  if (is_cast_at_border(in, op)) return std::nullopt;
  const auto refuse = [&](TensorId id) -> std::optional<Refusal> {
    if (in.net()[id].dtype == DType::f32) return std::nullopt;
    return because(fmt::format("tensor '{}' is of {}", in.name(id), to_string(in.net()[id].dtype)));
  };
  for (const TensorId id : data_inputs(op))
    if (auto refusal = refuse(id); refusal && !in.is_constant(id)) return refusal;
  return refuse(op.output);
}

// Of an operator by itself its kernels are planned
std::optional<Refusal> refuse_single(const PlanningInput& in, const Operator& op, RegionPlan& plan) {
  if (has_plain_kernel(in, op)) return std::nullopt;
  auto made = tensor_launches(in, op);
  if (!made) return std::move(made).refusal();
  plan.tensors = *std::move(made);
  return std::nullopt;
}

std::optional<Refusal> refuse_first(const PlanningInput& in, const Region& r, RegionPlan& plan) {
  switch (r.kind) {
    case RegionReport::Kind::contraction: return std::nullopt;
    case RegionReport::Kind::epilogue: return refuse_graph(in, r, in.element);
    default: return refuse_single(in, in.first(r), plan);
  }
}

std::optional<Unserved> wanted_on_host(const PlanningInput& in, const Region& r) {
  for (const std::size_t i : r.operators)
    if (const std::string kind = to_string(in.net().operators[i].kind);
        std::ranges::find(in.on_host, kind) != in.on_host.end())
      return Unserved{i, because(fmt::format("UNISONO_HOST_STEPS names {}", kind))};
  return std::nullopt;
}

// What is free in the memory of kernels is so with f32 alone
std::optional<Unserved> unserved(const PlanningInput& in, const Region& r, RegionPlan& plan) {
  for (const std::size_t i : r.operators)
    if (auto why = refuse_types(in, in.net().operators[i])) return Unserved{i, *std::move(why)};
  if (!in.is_launched(r)) return std::nullopt;
  if (auto wanted = wanted_on_host(in, r)) return wanted;
  if (auto why = refuse_first(in, r, plan)) return Unserved{r.operators[0], *std::move(why)};
  return std::nullopt;
}

// Why there are no kernels for an epilogue that is not computed with its contraction
std::optional<Unserved> unserved_apart(const PlanningInput& in, const Region& r,
                                       const std::optional<ContractionPlan>& plan) {
  if (!plan || plan->whole) return std::nullopt;
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
    if (!found && own.head) found = unserved_apart(in, in.region(r.head->region), own.head);
    if (!found) continue;
    own = RegionPlan{};
    own.host = std::move(found);
    plan.im2col_inputs.erase(in.first(r).inputs[0]);  // the host reads it as it is
  }
}

}  // namespace unisono::network::gpu
