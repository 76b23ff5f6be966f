#include "network/cuda/decide/served_graph.hpp"

namespace unisono::network::gpu {

codegen::GraphStorage storage_of(const PlanningInput& in, const Region& r, DType accumulator) {
  codegen::GraphStorage storage{.element = in.element, .accumulator = accumulator};
  for (const RegionOperand& o : r.operands) storage.operands[o.name] = operand_type(in, o);
  for (const RegionOutput& o : r.outputs)
    if (in.fused.own_type[o.tensor]) storage.stores_in_f32.insert(o.name);
  return storage;
}

std::optional<Refusal> refuse_graph(const PlanningInput& in, const Region& r, DType accumulator) {
  const auto& kernels = in.graph_kernels.of(r.graph, storage_of(in, r, accumulator));
  if (kernels) return std::nullopt;
  return kernels.refusal();
}

}  // namespace unisono::network::gpu
