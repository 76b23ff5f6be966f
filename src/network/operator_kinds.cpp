/// What kinds of operators are to the fuser, and to what decides about memory.

#include <algorithm>

#include "network/regions.hpp"
#include "network/space.hpp"

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

bool is_move(const OperatorKind& k) {
  using namespace operators;
  return is_reshape(k) || std::holds_alternative<Concat>(k) || std::holds_alternative<Pad>(k) ||
         std::holds_alternative<Transpose>(k) || std::holds_alternative<Expand>(k) ||
         std::holds_alternative<Slice>(k) || std::holds_alternative<Identity>(k) || std::holds_alternative<Tile>(k) ||
         std::holds_alternative<DepthToSpace>(k) || std::holds_alternative<Triangle>(k) ||
         std::holds_alternative<Gather>(k) || std::holds_alternative<GatherElements>(k) ||
         std::holds_alternative<GatherND>(k);
}

bool converts(const OperatorKind& k) {
  using namespace operators;
  return std::holds_alternative<Map>(k) || std::holds_alternative<Concat>(k) || std::holds_alternative<Transpose>(k) ||
         std::holds_alternative<Expand>(k) || std::holds_alternative<Slice>(k) || std::holds_alternative<Identity>(k) ||
         std::holds_alternative<Tile>(k) || std::holds_alternative<DepthToSpace>(k) ||
         std::holds_alternative<Reduce>(k) || std::holds_alternative<ArgReduce>(k) || std::holds_alternative<TopK>(k) ||
         std::holds_alternative<MatMul>(k) || std::holds_alternative<GridSample>(k);
}

bool multiplies(const Network& n, const Region& r) {
  return r.kind == RegionReport::Kind::contraction ||
         std::holds_alternative<operators::Attention>(n.operators[r.operators[0]].kind);
}

bool knows_f32(const Network& n, const Region& r) {
  const auto& kind = n.operators[r.operators[0]].kind;
  if (r.kind == RegionReport::Kind::epilogue)
    return std::ranges::all_of(r.operators, [&](std::size_t i) {
      return std::holds_alternative<operators::Elementwise>(n.operators[i].kind);
    });
  return r.kind == RegionReport::Kind::single && !multiplies(n, r) &&
         !std::holds_alternative<operators::Pool2d>(kind) &&
         !std::holds_alternative<operators::GlobalAveragePool>(kind) &&
         !std::holds_alternative<operators::Resize>(kind);
}

bool is_mask_of(const Operator& reader, TensorId id) {
  if (!std::holds_alternative<operators::Attention>(reader.kind)) return false;
  const auto masks = reader.inputs.begin() + 3;  // behind q, k and v
  return std::find(reader.inputs.begin(), masks, id) == masks &&
         std::find(masks, reader.inputs.end(), id) != reader.inputs.end();
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
