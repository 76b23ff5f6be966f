#include "network/cuda/emit/emission.hpp"

#include "network/space.hpp"
#include "unisono/error.hpp"

namespace unisono::network::gpu {

namespace {

void emit_by_kind(RegionEmission& e, const Region& r, const RegionPlan& plan) {
  switch (r.kind) {
    case RegionReport::Kind::contraction: return emit_contraction(e, plan);
    case RegionReport::Kind::epilogue: {
      std::optional<PitchedTensor> acc;
      if (r.source) acc = e.tensor(*r.source);
      return emit_graph(e, r, extents_of(e.sizes(e.output())), acc, std::nullopt);
    }
    default: return emit_single(e);
  }
}

void emit_region(RegionEmission& e, const Region& r, const RegionPlan& plan) {
  if (plan.refusal) throw Unsupported(plan.refusal->text());
  e.op = &e.in.first(r);
  e.name = e.in.name(r.outputs[0].tensor);
  e.launches.free_scratch();
  emit_gathered_operands(e, r, plan);
  emit_by_kind(e, r, plan);
  if (r.kind != RegionReport::Kind::epilogue && r.unfused) e.launches.last().how += ": " + r.unfused->first();
}

}  // namespace

LaunchSequence emit(const PlanningInput& in, const NetworkPlan& plan) {
  LaunchList launches(in);
  const Network& n = in.net();
  RegionEmission border(in, plan, launches, in.fused.regions.size());
  for (std::size_t i = 0; i < n.inputs.size(); ++i)
    if (!in.storage.memory[n.inputs[i]].unused && !plan.im2col_inputs.contains(n.inputs[i]))
      emit_border(border, n.inputs[i], i, true);
  for (std::size_t i = 0; i < in.fused.regions.size(); ++i) {
    if (!in.is_launched(in.region(i))) continue;
    RegionEmission e(in, plan, launches, i);
    emit_region(e, in.region(i), plan.regions[i]);
  }
  for (std::size_t i = 0; i < n.outputs.size(); ++i) emit_border(border, n.outputs[i], n.inputs.size() + i, false);
  return launches.finish(in.device);
}

}  // namespace unisono::network::gpu
