#include "network/cuda/decide/served_single.hpp"

#include <algorithm>

#include "network/cuda/parameters.hpp"
#include "products/kernel.hpp"

namespace unisono::network::gpu {

namespace {

// By the kind of the operator
class HasPlainKernel {
 public:
  HasPlainKernel(const PlanningInput& in, const Operator& op) : in_(in), op_(op) {}

  bool operator()(const operators::Pool2d&) const { return true; }
  bool operator()(const operators::GlobalAveragePool&) const { return true; }
  bool operator()(const operators::Resize&) const { return true; }
  bool operator()(const operators::Concat&) const { return copies(); }
  bool operator()(const operators::Transpose&) const { return copies(); }
  bool operator()(const operators::Expand&) const { return copies(); }
  bool operator()(const operators::Slice&) const { return copies(); }
  bool operator()(const operators::Identity&) const { return copies(); }
  bool operator()(const operators::Map& m) const { return m.op == MapOp::cast && copies(); }
  bool operator()(const operators::MatMul&) const;
  bool operator()(const operators::Attention&) const { return true; }  // it is found for devices with kernels alone
  bool operator()(const operators::Pad& p) const { return p.mode == PadMode::constant && copies(); }
  bool operator()(const operators::Reshape&) const { return reshapes(); }
  bool operator()(const operators::PixelReshape&) const { return reshapes(); }
  bool operator()(const operators::Flatten&) const { return reshapes(); }
  bool operator()(const operators::ReshapeLike&) const { return reshapes(); }
  bool operator()(const auto&) const { return false; }

 private:
  bool copies() const { return rank(op_.output) <= kCopyRank; }
  bool reshapes() const { return std::max(rank(op_.inputs[0]), rank(op_.output)) <= kCopyRank; }
  std::size_t rank(TensorId id) const { return in_.sizes(id).size(); }

  const PlanningInput& in_;
  const Operator& op_;
};

// By the tensor cores
bool HasPlainKernel::operator()(const operators::MatMul&) const {
  const Sizes& c = in_.sizes(op_.output);
  const auto batch = std::count_if(c.begin(), c.end() - 2, [](std::int64_t extent) { return extent != 1; });
  return batch <= kBatchAxes && !products::refuse_device(in_.device);
}

}  // namespace

bool has_plain_kernel(const PlanningInput& in, const Operator& op) {
  return std::visit(HasPlainKernel(in, op), op.kind);
}

}  // namespace unisono::network::gpu
