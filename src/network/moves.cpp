#include "network/moves.hpp"

#include <algorithm>
#include <cstring>

#include "network/dim.hpp"
#include "network/pixel_rows.hpp"

namespace unisono::network {

bool may_be_moved(const Network& n, TensorId from, TensorId to) {
  const auto is_known = [](const Dim& d) { return d.known() && d.value() > 0; };
  return !n[from].is_constant() && n[from].keeps_f32 == n[to].keeps_f32 && n[from].dtype == n[to].dtype &&
         std::ranges::all_of(n[from].shape, is_known) && std::ranges::all_of(n[to].shape, is_known);
}

namespace {

struct StaysInPlace {
  bool same_shape = false;
  bool operator()(const operators::Identity&) const { return true; }
  bool operator()(const operators::Slice& s) const {
    return same_shape && std::ranges::all_of(s.steps, [](std::int64_t step) { return step == 1; });
  }
  bool operator()(const operators::Transpose& t) const { return std::ranges::is_sorted(t.order); }
  bool operator()(const operators::Pad& p) const {
    return same_shape && std::ranges::all_of(p.before, [](std::int64_t x) { return x == 0; });
  }
  bool operator()(const operators::Expand&) const { return same_shape; }
  bool operator()(const operators::Tile&) const { return same_shape; }
  bool operator()(const auto&) const { return false; }
};

}  // namespace

bool stays_in_place(const Network& n, const Operator& op) {
  if (op.inputs.empty() || !may_be_moved(n, op.inputs[0], op.output)) return false;
  return std::visit(StaysInPlace{n[op.inputs[0]].shape == n[op.output].shape}, op.kind);
}

bool joins_moves(const Network& n, const Operator& op) {
  const bool moves = std::holds_alternative<operators::Reshape>(op.kind) ||
                     std::holds_alternative<operators::Flatten>(op.kind) ||
                     std::holds_alternative<operators::Transpose>(op.kind);
  return moves ? may_be_moved(n, op.inputs[0], op.output) : stays_in_place(n, op);
}

namespace {

bool works_on_images(const Network& n, const Operator& op) { return !works_in_order(op.kind) && !joins_moves(n, op); }

// Elementwise operators and their like work on images if what they read or make is one
bool join_images(const Network& n, const Operator& op, std::vector<bool>& image) {
  if (!works_in_order(op.kind) || joins_moves(n, op) || std::holds_alternative<operators::Reshape>(op.kind) ||
      std::holds_alternative<operators::MatMul>(op.kind) || std::holds_alternative<operators::Attention>(op.kind) ||
      n[op.output].shape.size() != 4)
    return false;
  std::vector<TensorId> same{op.output};
  for (const TensorId id : op.inputs)
    if (n[id].shape.size() == 4 && !n[id].is_constant()) same.push_back(id);
  const auto is_image = [&](TensorId id) { return bool{image[id]}; };
  if (std::ranges::none_of(same, is_image) || std::ranges::all_of(same, is_image)) return false;
  for (const TensorId id : same) image[id] = true;
  return true;
}

}  // namespace

std::vector<bool> images_among(const Network& n) {
  std::vector<bool> image(n.tensors.size(), false);
  const auto mark = [&](TensorId id) { image[id] = n[id].shape.size() == 4; };
  std::ranges::for_each(n.inputs, mark);
  std::ranges::for_each(n.outputs, mark);
  for (const Operator& op : n.operators)
    if (works_on_images(n, op)) {
      mark(op.output);
      std::ranges::for_each(op.inputs, mark);
    }
  for (bool more = true; more;) {
    more = false;
    for (const Operator& op : n.operators) more = join_images(n, op, image) || more;
    for (auto op = n.operators.rbegin(); op != n.operators.rend(); ++op) more = join_images(n, *op, image) || more;
  }
  return image;
}

MoveChain::MoveChain(Network& network, TensorId from, TensorId to)
    : n_(network), to_(to), last_(from), shape_(values(network[from].shape)) {}

void MoveChain::reshape(const std::vector<std::int64_t>& shape) {
  if (shape != shape_) push(operators::Reshape{.shape = shape, .literal = true}, {}, shape);
}

void MoveChain::permute(const std::vector<int>& order) {
  std::vector<std::int64_t> made;
  for (const int axis : order) made.push_back(shape_[static_cast<std::size_t>(axis)]);
  push(operators::Transpose{order}, {}, std::move(made));
}

void MoveChain::gather(int axis, const std::vector<std::int64_t>& places) {
  auto bytes = std::make_shared<std::vector<std::byte>>(places.size() * sizeof(std::int64_t));
  std::memcpy(bytes->data(), places.data(), bytes->size());
  const auto count = static_cast<std::int64_t>(places.size());
  n_.tensors.push_back({n_[to_].name + "_places", DType::i64, {Dim(count)}, nullptr, std::move(bytes)});
  std::vector<std::int64_t> made = shape_;
  made[static_cast<std::size_t>(axis)] = count;
  push(operators::Gather{axis}, {static_cast<TensorId>(n_.tensors.size() - 1)}, std::move(made));
}

void MoveChain::end(bool image) {
  const std::vector<std::int64_t> made = values(n_[to_].shape);
  if (image) {
    reshape({made[0], made[2], made[3], made[1]});
    permute({0, 3, 1, 2});
  } else if (made != shape_ || !is_begun_) {
    push(operators::Reshape{.shape = made, .literal = true}, {}, made);
  }
  n_.operators.back().output = to_;
}

void MoveChain::push(OperatorKind kind, std::vector<TensorId> others, std::vector<std::int64_t> made) {
  const NetworkTensor& to = n_[to_];
  NetworkTensor t{to.name + "_moved", to.dtype, to_shape(made), nullptr, nullptr, to.keeps_f32};
  const std::string name = to.name;
  n_.tensors.push_back(std::move(t));
  others.insert(others.begin(), last_);
  last_ = static_cast<TensorId>(n_.tensors.size() - 1);
  n_.operators.push_back({std::move(kind), name, std::move(others), last_});
  shape_ = std::move(made);
  is_begun_ = true;
}

}  // namespace unisono::network
