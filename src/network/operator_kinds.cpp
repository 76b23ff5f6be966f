/// What kinds of operators are to the fuser.

#include "network/regions.hpp"

namespace unisono::network {

bool is_contraction(const OperatorKind& k) {
  return is_conv2d(k) || std::holds_alternative<operators::StackedConv3d>(k) ||
         std::holds_alternative<operators::ConvTranspose2d>(k) || std::holds_alternative<operators::Gemm>(k);
}

std::span<const TensorId> data_inputs(const Operator& op) {
  const std::span<const TensorId> all(op.inputs);
  if (std::holds_alternative<operators::ShapeOf>(op.kind)) return {};
  const auto& k = op.kind;
  const bool like = std::holds_alternative<operators::Expand>(k) || std::holds_alternative<operators::ReshapeLike>(k) ||
                    std::holds_alternative<operators::Resize>(k) || std::holds_alternative<operators::Resample>(k);
  return like ? all.first(1) : all;
}

bool is_pointwise(const OperatorKind& k) {
  return std::holds_alternative<operators::Elementwise>(k) || std::holds_alternative<operators::Normalisation>(k) ||
         std::holds_alternative<operators::Softmax>(k);
}

std::optional<Op> graph_operation(const OperatorKind& kind) {
  const auto* map = std::get_if<operators::Map>(&kind);
  if (map == nullptr) return std::nullopt;
  switch (map->op) {
    case MapOp::less: return Op::less;
    case MapOp::less_equal: return Op::less_equal;
    case MapOp::greater: return Op::greater;
    case MapOp::greater_equal: return Op::greater_equal;
    case MapOp::equal: return Op::equal;
    case MapOp::logical_and: return Op::logical_and;
    case MapOp::logical_or: return Op::logical_or;
    case MapOp::logical_not: return Op::logical_not;
    case MapOp::select: return Op::select;
    default: return std::nullopt;
  }
}

}  // namespace unisono::network
