#include "network/cuda/emit/emission.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "network/cuda/decide/passes.hpp"
#include "network/space.hpp"

namespace unisono::network::gpu {

namespace {

// "less (2,8) -> (2,8), then select": all operators of a region without an epilogue graph
std::string described(const RegionEmission& e, const Region& r) {
  std::vector<std::string> others;
  for (std::size_t i = 1; i < r.operators.size(); ++i)
    others.push_back(to_string(e.net().operators[r.operators[i]].kind));
  const std::string first = describe(e.net(), *e.op);
  return others.empty() ? first : fmt::format("{}, then {}", first, fmt::join(others, ", "));
}

void emit_by_kind(RegionEmission& e, const Region& r, const RegionPlan& plan) {
  if (plan.tensors) {
    emit_tensor_kernels(e, *plan.tensors, described(e, r));
    if (std::holds_alternative<operators::Conv3d>(e.op->kind) && !plan.tensors->launches.list.empty())
      if (const auto why = refuse_stacking(e.net(), *e.op))
        e.launches.last().how += fmt::format(": not on the tensor cores: {}", why->first());
    return;
  }
  if (plan.layers) return emit_small_layers(e, *plan.layers);
  switch (r.kind) {
    case RegionReport::Kind::contraction: return emit_contraction(e, plan);
    case RegionReport::Kind::epilogue: {
      std::optional<PitchedTensor> acc;
      if (r.source) acc = e.in.tensor(*r.source);
      return emit_graph(e, r, extents_of(e.sizes(e.output())), acc, std::nullopt);
    }
    default: return emit_single(e);
  }
}

void emit_region(RegionEmission& e, const Region& r, const RegionPlan& plan) {
  e.op = &e.in.first(r);
  e.name = e.in.name(r.outputs[0].tensor);
  e.launches.free_scratch();
  emit_gathered_operands(e, r, plan);
  emit_by_kind(e, r, plan);
  if (r.kind != RegionReport::Kind::epilogue && r.unfused) e.launches.last().how += ": " + r.unfused->first();
  if (plan.not_layers) e.launches.last().how += ": not one launch with the layer ahead: " + plan.not_layers->first();
  if (plan.not_reduced)
    e.launches.last().how +=
        fmt::format(": not in the kernel that makes '{}': {}", e.in.name(e.input()), plan.not_reduced->first());
}

void emit_regions(RegionEmission& border, const NetworkPlan& plan) {
  auto group = plan.host_groups.begin();
  for (std::size_t i = 0; i < plan.regions.size(); ++i) {
    if (group != plan.host_groups.end() && group->first == i) emit_host(border, *group++);
    if (!has_kernels(border.in, plan, i)) continue;
    RegionEmission e(border.in, plan, border.launches, i);
    emit_region(e, border.in.region(i), plan.regions[i]);
  }
}

}  // namespace

LaunchSequence emit(const PlanningInput& in, const NetworkPlan& plan) {
  LaunchList launches(in);
  const Network& n = in.net();
  RegionEmission border(in, plan, launches, in.fused.regions.size());
  for (std::size_t i = 0; i < n.inputs.size(); ++i)
    if (const Memory& m = in.storage.memory[n.inputs[i]]; !m.unused && m.where != Memory::Where::input &&
                                                          !plan.im2col_inputs.contains(n.inputs[i]) &&
                                                          !plan.host_only.contains(n.inputs[i]))
      emit_border(border, {n.inputs[i], i, BorderTensor::Way::input});
  emit_regions(border, plan);
  const auto is_in_place = [&](std::size_t i) {
    const Memory& m = in.storage.memory[n.outputs[i]];
    return m.where == Memory::Where::output && m.index == i;
  };
  for (std::size_t i = 0; i < n.outputs.size(); ++i)
    if (!is_in_place(i) && !plan.host_only.contains(n.outputs[i]))
      emit_border(border, {n.outputs[i], n.inputs.size() + i, BorderTensor::Way::output});
  return launches.finish(in.device);
}

}  // namespace unisono::network::gpu
