#include "network/cuda/decide/served_single.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "network/cuda/parameters.hpp"
#include "products/kernel.hpp"

namespace unisono::network::gpu {

namespace {

// By the kind of the operator
class SingleRefusal {
 public:
  using Answer = std::optional<Refusal>;

  SingleRefusal(const PlanningInput& in, const Operator& op) : in_(in), op_(op) {}

  Answer operator()(const operators::Pool2d&) const { return std::nullopt; }
  Answer operator()(const operators::GlobalAveragePool&) const { return std::nullopt; }
  Answer operator()(const operators::Resize&) const { return std::nullopt; }
  Answer operator()(const operators::Concat&) const { return copy(); }
  Answer operator()(const operators::Transpose&) const { return copy(); }
  Answer operator()(const operators::Expand&) const { return copy(); }
  Answer operator()(const operators::Slice&) const { return copy(); }
  Answer operator()(const operators::Identity&) const { return copy(); }
  Answer operator()(const operators::Map& m) const { return m.op == MapOp::cast ? copy() : none(); }
  Answer operator()(const operators::MatMul&) const;
  Answer operator()(const operators::Attention&) const { return products::refuse_device(in_.device); }
  Answer operator()(const operators::Pad& p) const {
    if (p.mode != PadMode::constant) return because("pads of other modes than constant have no kernel of a GPU");
    return copy();
  }
  Answer operator()(const operators::Reshape&) const { return reshape(); }
  Answer operator()(const operators::PixelReshape&) const { return reshape(); }
  Answer operator()(const operators::Flatten&) const { return reshape(); }
  Answer operator()(const operators::ReshapeLike&) const { return reshape(); }
  Answer operator()(const auto&) const { return none(); }

 private:
  static Answer none() { return because("no kernel of a GPU serves it"); }
  Answer copy() const { return of_rank(rank(op_.output)); }
  Answer reshape() const { return of_rank(std::max(rank(op_.inputs[0]), rank(op_.output))); }
  std::size_t rank(TensorId id) const { return in_.sizes(id).size(); }
  static Answer of_rank(std::size_t rank) {
    if (rank <= kCopyRank) return std::nullopt;
    return because(fmt::format("tensors of rank {}; at most {}", rank, kCopyRank));
  }

  const PlanningInput& in_;
  const Operator& op_;
};

SingleRefusal::Answer SingleRefusal::operator()(const operators::MatMul&) const {
  if (auto why = products::refuse_device(in_.device)) return why;
  const Sizes& c = in_.sizes(op_.output);
  const auto batch = std::count_if(c.begin(), c.end() - 2, [](std::int64_t extent) { return extent != 1; });
  if (batch <= kBatchAxes) return std::nullopt;
  return because(fmt::format("a product with {} axes of batches; at most {}", batch, kBatchAxes));
}

}  // namespace

std::optional<Refusal> refuse_single(const PlanningInput& in, const Operator& op) {
  return std::visit(SingleRefusal(in, op), op.kind);
}

}  // namespace unisono::network::gpu
