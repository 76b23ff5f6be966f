/// What exporters write between two permutes of an image, from (N,C,H,W) to (N,H,W,C) and back, works on rows of a
/// matrix (N·H·W, C). That is how the image lies in memory, while a tensor (N,H,W,C) would have to be written in
/// another order, since tensors of rank 4 have their second axis innermost.

#include <algorithm>

#include "network/dim.hpp"
#include "network/pixel_rows.hpp"
#include "network/space.hpp"

namespace unisono::network {

PixelRows::PixelRows(const Network& network)
    : in_(network),
      out_(network),
      same_(network.tensors.size()),
      pending_(network.tensors.size(), false),
      leaves_order_(network.tensors.size(), false) {
  out_.operators.clear();
  for (const TensorId id : in_.outputs) leaves_order_[id] = true;
  for (const Operator& op : in_.operators)
    for (const TensorId id : op.inputs)
      if (!works_in_order(op.kind)) leaves_order_[id] = true;
}

Network PixelRows::run() {
  for (const Operator& op : in_.operators)
    if (!rewrite(op)) keep(op);
  for (const TensorId id : in_.outputs) write(id);
  return std::move(out_);
}

bool PixelRows::is_known(TensorId id) const {
  const Shape& s = in_[id].shape;
  return std::all_of(s.begin(), s.end(), [](const Dim& d) { return d.known() && d.value() > 0; });
}

Shape PixelRows::row_shape(TensorId id, Order order) const {
  const Shape& s = in_[id].shape;
  const std::int64_t width = (order == Order::axes ? s.back() : s[1]).value();
  return {Dim(element_count(values(s)) / width), Dim(width)};
}

TensorId PixelRows::add(const NetworkTensor& like, Shape shape, std::string_view suffix) {
  out_.tensors.push_back(
      {like.name + std::string(suffix), like.dtype, std::move(shape), like.constant, like.bytes, like.keeps_f32});
  return static_cast<TensorId>(out_.tensors.size() - 1);
}

void PixelRows::emit_reshape(TensorId from, TensorId to, bool pixels) {
  const std::vector<std::int64_t> shape = values(out_[to].shape);
  OperatorKind kind = operators::Reshape{.shape = shape, .literal = true};
  if (pixels) kind = operators::PixelReshape{shape};
  out_.operators.push_back({std::move(kind), out_[to].name, {from}, to});
}

// Makes sure that the tensor itself is there
void PixelRows::write(TensorId id) {
  if (!pending_[id]) return;
  pending_[id] = false;
  emit_reshape(same_[id]->tensor, id, same_[id]->order == Order::pixels);
}

// The tensor's rows as a matrix
TensorId PixelRows::matrix(TensorId id) {
  Rows& rows = *same_[id];
  const Shape shape = row_shape(id, rows.order);
  if (out_[rows.tensor].shape == shape) return rows.tensor;
  const TensorId made = add(out_[rows.tensor], shape, "_rows");
  emit_reshape(rows.tensor, made, false);
  return rows.tensor = made;
}

// Reads the image's pixels as the rows of a matrix
TensorId PixelRows::pixels_of_image(TensorId id) {
  write(id);
  const TensorId rows = add(in_[id], row_shape(id, Order::pixels), "_pixels");
  emit_reshape(id, rows, true);
  same_[id] = {rows, Order::pixels};
  return rows;
}

void PixelRows::keep(Operator op) {
  for (TensorId& id : op.inputs) {
    if (pending_[id] && same_[id]->order == Order::axes && in_[id].shape == out_[same_[id]->tensor].shape) {
      id = same_[id]->tensor;
    } else {
      write(id);
    }
  }
  out_.operators.push_back(std::move(op));
}

bool PixelRows::rewrite(const Operator& op) {
  const bool known =
      is_known(op.output) && std::all_of(op.inputs.begin(), op.inputs.end(), [&](TensorId id) { return is_known(id); });
  if (!known) return false;
  if (const auto* t = std::get_if<operators::Transpose>(&op.kind)) return permute(op, *t) || batches(op);
  if (std::holds_alternative<operators::Reshape>(op.kind) || std::holds_alternative<operators::Flatten>(op.kind))
    return reshape(op);
  if (std::holds_alternative<operators::Attention>(op.kind)) return attention(op);
  if (std::holds_alternative<operators::Elementwise>(op.kind) && elementwise(op)) return true;
  return batches(op);
}

bool PixelRows::permute(const Operator& op, const operators::Transpose& t) {
  const TensorId from = op.inputs[0], to = op.output;
  if (t.order == std::vector<int>{0, 2, 3, 1}) {
    if (in_[from].is_constant()) return false;
    if (!same_[from] || same_[from]->order != Order::pixels) pixels_of_image(from);
    become(to, {same_[from]->tensor, Order::axes});
    return true;
  }
  if (t.order != std::vector<int>{0, 3, 1, 2} || !same_[from] || same_[from]->order != Order::axes) return false;
  become(to, {matrix(from), Order::pixels});
  return true;
}

bool PixelRows::reshape(const Operator& op) {
  const TensorId from = op.inputs[0], to = op.output;
  const bool rows = same_[from] && same_[from]->order == Order::axes;
  if (!rows && (in_[from].shape.size() == 4 || in_[to].shape.size() != 4 || in_[from].is_constant())) return false;
  if (in_[to].shape.empty()) return false;
  const bool same_rows = !in_[from].shape.empty() && in_[from].shape.back() == in_[to].shape.back();
  if (!rows && !same_rows && leaves_order_[to]) return false;
  const TensorId source = rows ? same_[from]->tensor : from;
  if (!rows) write(from);
  if (in_[to].shape.size() == 4) {
    become(to, {source, Order::axes});
  } else if (out_[source].shape == in_[to].shape) {
    become(to, {source, Order::axes});
  } else {
    same_[to] = {to, Order::axes};
    emit_reshape(source, to, false);
  }
  return true;
}

// The order in which the operands of an elementwise operator are rows already
std::optional<PixelRows::Order> PixelRows::order_of(const Operator& op) const {
  const Shape& space = in_[op.output].shape;
  if (space.size() != 4) return std::nullopt;
  for (const TensorId id : op.inputs)
    if (same_[id] && in_[id].shape == space && pending_[id]) return same_[id]->order;
  return std::nullopt;
}

// What takes the place of an operand when the operator works on rows; nothing if it cannot. Adds operators and tensors
// only if `make`.
std::optional<TensorId> PixelRows::row_operand(TensorId id, const Shape& space, Order order, bool make) {
  const NetworkTensor& t = in_[id];
  const std::size_t rank = t.shape.size();
  if (t.shape == space) {
    if (same_[id] && same_[id]->order == order) return make ? matrix(id) : id;
    if (order == Order::axes || t.is_constant()) return std::nullopt;
    return make ? pixels_of_image(id) : id;
  }
  const std::int64_t count = element_count(values(t.shape));
  const std::size_t column = order == Order::axes ? 3 : 1;  // the space's
  const bool is_vector =
      count == space[column].value() && rank + column >= 4 && t.shape[rank + column - 4] == space[column];
  if (count != 1 && !is_vector) return std::nullopt;
  if (count == 1 ? rank <= 2 : rank == 1) return id;                              // broadcasts over rows as it is
  const bool is_row = count != 1 && t.shape[column_axis(rank)] == space[column];  // of memory
  if (!t.is_constant() && !is_row) return std::nullopt;
  if (!make) return id;
  const TensorId row = add(t, count == 1 ? Shape{} : Shape{space[column]}, "_row");
  if (t.is_constant()) return row;
  write(id);
  emit_reshape(id, row, false);
  return row;
}

bool PixelRows::elementwise(const Operator& op) {
  const std::optional<Order> order = order_of(op);
  if (!order) return false;
  const Shape& space = in_[op.output].shape;
  for (const TensorId id : op.inputs)
    if (!row_operand(id, space, *order, false)) return false;
  Operator rows = op;
  for (TensorId& id : rows.inputs) {
    const TensorId operand = *row_operand(id, space, *order, true);
    if (operand == id) write(id);
    id = operand;
  }
  // the same name, by which a report says what is stored
  rows.output = add(in_[op.output], row_shape(op.output, *order), "");
  out_.operators.push_back(rows);
  become(op.output, {rows.output, *order});
  return true;
}

Network rows_of_pixels(const Network& network) { return PixelRows(network).run(); }

}  // namespace unisono::network
