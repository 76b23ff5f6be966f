#include "network/cuda/decide/attention_operands.hpp"

#include <algorithm>

#include "network/attention_extents.hpp"
#include "network/dim.hpp"
#include "network/strided_copy.hpp"
#include "support/checked.hpp"

namespace unisono::network::gpu {

namespace {

std::uint32_t counted(std::int64_t x) { return support::narrow<std::uint32_t>("a count of a kernel on the GPU", x); }

// One of a layout's axes in memory
std::int64_t stride_of(const operators::MatrixAxis& axis, const Sizes& strides) {
  return axis.axis < 0 ? 0 : axis.step * strides[static_cast<std::size_t>(axis.axis)];
}

struct LaidOut {
  BatchedMatrix matrix{};
  std::int64_t first = 0;  // elements
};
LaidOut laid_out(const operators::MatrixLayout& layout, const Sizes& strides) {
  LaidOut l;
  const std::size_t batch = layout.axes.size() - 2;
  for (std::size_t i = 0; i < batch; ++i) l.matrix.batch[i] = stride_of(layout.axes[i], strides);
  l.matrix.row = stride_of(layout.axes[batch], strides), l.matrix.column = stride_of(layout.axes[batch + 1], strides);
  for (std::size_t i = 0; i < layout.begin.size(); ++i) l.first += layout.begin[i] * strides[i];
  return l;
}

class OperandLayout {
 public:
  OperandLayout(const PlanningInput& in, const Operator& op)
      : in_(in), op_(op), a_(std::get<operators::Attention>(op.kind)) {}

  AttentionOperands run();

 private:
  void set_extents();
  BatchedMatrix place(TensorId id, const operators::MatrixLayout& layout);
  void place_mask(std::size_t index);

  const PlanningInput& in_;
  const Operator& op_;
  const operators::Attention& a_;
  AttentionOperands made_;
};

void OperandLayout::set_extents() {
  std::vector<Shape> shapes;
  for (const TensorId id : op_.inputs) shapes.push_back(to_shape(in_.sizes(id)));
  const std::vector<std::int64_t> extents = values(attention_extents(a_, shapes));
  AttentionParams& p = made_.problem.extents;
  const std::size_t batch = extents.size() - 4;
  std::fill_n(p.batches.extents, kBatchAxes, 1);
  for (std::size_t i = 0; i < batch; ++i) p.batches.extents[i] = counted(extents[i]);
  p.queries = counted(extents[batch]), p.keys = counted(extents[batch + 1]);
  p.width = counted(extents[batch + 2]), p.value_width = counted(extents[batch + 3]);
  p.scale = static_cast<float>(a_.scale * 1.4426950408889634);
  p.guard = static_cast<u32>(a_.guard);
}

BatchedMatrix OperandLayout::place(TensorId id, const operators::MatrixLayout& layout) {
  const PitchedTensor tensor = in_.fused.own_type[id] ? in_.tensor(id) : in_.element_tensor(id);
  const Sizes& sizes = in_.sizes(id);
  const LaidOut l = laid_out(layout, logical_strides(sizes, tensor.pitch));
  made_.placed.push_back({tensor.at, l.first * static_cast<std::int64_t>(size_of(tensor.type)), all_of(tensor, sizes)});
  return l.matrix;
}

// Constants are read in f32, and what lies in memory so
void OperandLayout::place_mask(std::size_t index) {
  AttentionMask& mask = made_.problem.extents.masks[index];
  const TensorId id = op_.inputs[3 + index];
  const operators::MatrixLayout& layout = a_.operands[3 + index];
  mask.replaces = a_.replaces[index] ? 1 : 0;
  mask.is_f32 = in_.is_constant(id) || in_.fused.own_type[id] ? 1 : 0;
  if (!in_.is_constant(id)) {
    mask.values = place(id, layout);
    return;
  }
  const LaidOut l = laid_out(layout, row_major_strides(in_.sizes(id)));
  mask.values = l.matrix;
  made_.placed.push_back({in_.constants.in_order(id), l.first * static_cast<std::int64_t>(sizeof(float)), {}});
}

AttentionOperands OperandLayout::run() {
  set_extents();
  products::AttentionProblem& problem = made_.problem;
  problem.element = in_.element;
  problem.masks = static_cast<int>(a_.replaces.size());
  AttentionParams& p = problem.extents;
  p.q = place(op_.inputs[0], a_.operands[0]);
  problem.q_first = made_.placed.back().first;
  p.k = place(op_.inputs[1], a_.operands[1]);
  problem.k_first = made_.placed.back().first;
  p.v = place(op_.inputs[2], a_.operands[2]);
  problem.v_first = made_.placed.back().first;
  for (std::size_t i = 0; i < a_.replaces.size(); ++i) place_mask(i);
  p.y = place(op_.output, a_.result);
  return std::move(made_);
}

}  // namespace

AttentionOperands attention_operands(const PlanningInput& in, const Operator& op) {
  return OperandLayout(in, op).run();
}

}  // namespace unisono::network::gpu
