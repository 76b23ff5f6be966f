/// Attention works on matrices (N, heads, M, K) of rank 4, which in memory would have their second axis innermost:
/// every product, softmax and permute would walk over strides. Here they get one more axis of extent 1 behind the
/// first, as tensors of rank 5 have their last axis innermost, and the first one still counts images.

#include <algorithm>

#include "network/dim.hpp"
#include "network/pixel_rows.hpp"

namespace unisono::network {

namespace {

Shape with_one_more(const Shape& s) { return {s[0], Dim(1), s[1], s[2], s[3]}; }

int moved(int axis) { return axis == 0 ? 0 : axis + 1; }

// The operator on tensors with that axis; nothing if it is none of those that may have it
struct OnRank5 {
  std::optional<OperatorKind> operator()(const operators::MatMul& m) const { return m; }
  std::optional<OperatorKind> operator()(const operators::Elementwise& e) const { return e; }
  std::optional<OperatorKind> operator()(const operators::Map& m) const { return m; }
  std::optional<OperatorKind> operator()(operators::Concat c) const {
    c.axis = moved(c.axis);
    return c;
  }
  std::optional<OperatorKind> operator()(operators::Slice s) const {
    for (int& axis : s.axes) axis = moved(axis);
    return s;
  }
  std::optional<OperatorKind> operator()(operators::Reduce r) const {
    if (!r.keep || r.axes.empty()) return std::nullopt;
    for (int& axis : r.axes) axis = moved(axis);
    return r;
  }
  std::optional<OperatorKind> operator()(operators::Pad p) const {
    p.before.insert(p.before.begin() + 1, 0);
    p.after.insert(p.after.begin() + 1, 0);
    return p;
  }
  std::optional<OperatorKind> operator()(operators::Tile t) const {
    t.repeats.insert(t.repeats.begin() + 1, 1);
    return t;
  }
  std::optional<OperatorKind> operator()(const operators::Transpose& t) const {
    operators::Transpose r{{moved(t.order[0]), 1}};
    for (std::size_t i = 1; i < t.order.size(); ++i) r.order.push_back(moved(t.order[i]));
    return r;
  }
  std::optional<OperatorKind> operator()(const auto&) const { return std::nullopt; }
};

}  // namespace

bool works_in_order(const OperatorKind& kind) {
  if (const auto* r = std::get_if<operators::Reduce>(&kind)) return r->keep && !r->axes.empty();
  return std::holds_alternative<operators::Tile>(kind) || std::holds_alternative<operators::Pad>(kind) ||
         std::holds_alternative<operators::MatMul>(kind) || std::holds_alternative<operators::Elementwise>(kind) ||
         std::holds_alternative<operators::Map>(kind) || std::holds_alternative<operators::Concat>(kind) ||
         std::holds_alternative<operators::Slice>(kind) || std::holds_alternative<operators::Transpose>(kind) ||
         std::holds_alternative<operators::Reshape>(kind) || std::holds_alternative<operators::Flatten>(kind) ||
         std::holds_alternative<operators::Attention>(kind);
}

// Whether the tensor's elements already lie in memory in the order of its axes
bool PixelRows::is_in_order(TensorId id) const { return pending_[id] && same_[id]->order == Order::axes; }

// The tensor as an operand of an operator on rank 5. An image is copied.
TensorId PixelRows::in_order(TensorId id) {
  const Shape& shape = in_[id].shape;
  if (shape.size() != 4) {
    if (is_in_order(id) && out_[same_[id]->tensor].shape == shape) return same_[id]->tensor;
    write(id);
    return id;
  }
  const Shape wide = with_one_more(shape);
  if (in_[id].is_constant()) return add(in_[id], wide, "_matrices");
  const bool rows = same_[id] && same_[id]->order == Order::axes;
  if (rows && out_[same_[id]->tensor].shape == wide) return same_[id]->tensor;
  if (!rows) write(id);
  const TensorId made = add(in_[id], wide, "_matrices");
  emit_reshape(rows ? same_[id]->tensor : id, made, false);
  same_[id] = {made, Order::axes};
  return made;
}

// Attention reads matrices of rank 4 where other operators have them in order
bool PixelRows::attention(const Operator& op) {
  Operator wide = op;
  auto& layouts = std::get<operators::Attention>(wide.kind).operands;
  bool any = false;
  for (std::size_t i = 0; i < wide.inputs.size(); ++i) {
    const TensorId id = op.inputs[i];
    if (in_[id].shape.size() != 4 || !is_in_order(id)) {
      write(id);
      continue;
    }
    wide.inputs[i] = in_order(id);
    layouts[i].begin.insert(layouts[i].begin.begin() + 1, 0);
    for (operators::MatrixAxis& axis : layouts[i].axes)
      if (axis.axis > 0) ++axis.axis;
    any = true;
  }
  if (any) out_.operators.push_back(std::move(wide));
  return any;
}

bool PixelRows::batches(const Operator& op) {
  if (in_[op.output].shape.size() != 4 || leaves_order_[op.output]) return false;
  const std::optional<OperatorKind> kind = std::visit(OnRank5{}, op.kind);
  const bool product = std::holds_alternative<operators::MatMul>(op.kind);
  const bool sound =
      std::all_of(op.inputs.begin(), op.inputs.end(), [&](TensorId id) { return in_[id].shape.size() <= 4; });
  if (!kind || !sound) return false;
  // a number for each channel of an image lies in either order, and gives the image none
  const auto is_pixel = [](const Shape& s) { return s[2] == Dim(1) && s[3] == Dim(1); };
  const auto gives_order = [&](TensorId id) {
    const Shape& s = in_[id].shape;
    return s.size() == 4 && is_in_order(id) && (!is_pixel(s) || is_pixel(in_[op.output].shape));
  };
  if (!product && std::none_of(op.inputs.begin(), op.inputs.end(), gives_order)) return false;
  Operator wide{*kind, op.name, {}, 0};
  for (const TensorId id : op.inputs) wide.inputs.push_back(in_order(id));
  // the same name, by which a report says what is stored
  wide.output = add(in_[op.output], with_one_more(in_[op.output].shape), "");
  out_.operators.push_back(wide);
  become(op.output, {wide.output, Order::axes});
  return true;
}

}  // namespace unisono::network
