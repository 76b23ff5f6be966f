#include <algorithm>

#include "network/cuda/decide/im2col_inputs.hpp"
#include "network/cuda/decide/passes.hpp"

namespace unisono::network::gpu {

namespace {

// The only operator that reads the tensor, by one of its inputs; null if others do, or it is an output
const Operator* only_reader(const Network& n, TensorId id) {
  if (std::count(n.outputs.begin(), n.outputs.end(), id) != 0) return nullptr;
  const Operator* only = nullptr;
  std::ptrdiff_t uses = 0;
  for (const Operator& op : n.operators) {
    const auto here = std::count(op.inputs.begin(), op.inputs.end(), id);
    if (here != 0) only = &op;
    uses += here;
  }
  return uses == 1 ? only : nullptr;
}

bool takes_im2col(const PlanningInput& in, const Operator& op, TensorId image) {
  const auto* kind = std::get_if<operators::Conv2d>(&op.kind);
  if (kind == nullptr || op.inputs[0] != image || !in.is_constant(op.inputs[1])) return false;
  const Contraction problem = in.contraction(op);
  const auto* c = std::get_if<Conv2d>(&problem);
  return c != nullptr && c->groups == 1 && c->s > 1 && c->c <= in.fused.style.im2col_channels;
}

}  // namespace

Conv2d im2col_of(const Conv2d& c) {
  Conv2d u = c;
  u.w = extents(Contraction(c)).width;
  u.c = c.c * c.s;
  u.s = 1;
  u.stride.w = u.dilation.w = 1;
  u.pad.left = u.pad.right = 0;
  return u;
}

void find_im2col_inputs(const PlanningInput& in, NetworkPlan& plan) {
  const Network& n = in.net();
  for (std::size_t i = 0; i < n.inputs.size(); ++i) {
    const TensorId id = n.inputs[i];
    if (n[id].dtype != DType::f32) continue;
    const Operator* const reader = only_reader(n, id);
    if (reader != nullptr && takes_im2col(in, *reader, id)) plan.im2col_inputs[id] = i;
  }
}

}  // namespace unisono::network::gpu
