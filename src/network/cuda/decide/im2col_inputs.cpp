#include <algorithm>
#include <vector>

#include "network/cuda/decide/im2col_inputs.hpp"
#include "network/cuda/decide/passes.hpp"

namespace unisono::network::gpu {

namespace {

// The only operator that reads the tensor, by one of its inputs, or the first of two convolutions of one region that
// alone do; null if others do, or it is an output
const Operator* only_reader(const PlanningInput& in, TensorId id) {
  const Network& n = in.net();
  if (std::count(n.outputs.begin(), n.outputs.end(), id) != 0) return nullptr;
  std::vector<std::size_t> readers;
  for (std::size_t i = 0; i < n.operators.size(); ++i)
    readers.insert(readers.end(), static_cast<std::size_t>(std::ranges::count(n.operators[i].inputs, id)), i);
  const auto is_pair = [&](const Region& r) {
    return r.second && std::ranges::is_permutation(readers, std::vector{r.operators[0], *r.second});
  };
  const bool is_read_once = readers.size() == 1 || std::ranges::any_of(in.fused.regions, is_pair);
  return is_read_once ? &n.operators[readers[0]] : nullptr;
}

bool takes_im2col(const PlanningInput& in, const Operator& op, TensorId image) {
  const auto* kind = std::get_if<operators::Conv2d>(&op.kind);
  if (kind == nullptr || op.inputs[0] != image || op.inputs[1] == image) return false;
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
    const Operator* const reader = only_reader(in, id);
    if (reader != nullptr && takes_im2col(in, *reader, id)) plan.im2col_inputs[id] = i;
  }
}

}  // namespace unisono::network::gpu
