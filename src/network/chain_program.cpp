/// Operators of a network as a chain's program.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "network/chains.hpp"
#include "network/digits.hpp"
#include "network/dim.hpp"
#include "network/infer_tensors.hpp"
#include "network/names.hpp"
#include "network/space.hpp"

namespace unisono::network {

namespace {

using tensors::ChainNode;
using tensors::Extents;
using Kind = ChainNode::Kind;

class ChainBuilder {
 public:
  explicit ChainBuilder(const Network& network) : n_(network) {}

  plan::Expected<Chain> build(const std::vector<std::size_t>& operators, const std::vector<TensorId>& results) {
    for (const std::size_t i : operators)
      for (const TensorId id : read_by(n_.operators[i]))
        if (!is_made(operators, id)) read(id);
    chain_.program.inputs = chain_.inputs.size();
    for (const std::size_t i : operators) {
      op_ = &n_.operators[i];
      const auto made = std::visit([&](const auto& kind) { return add(kind); }, op_->kind);
      if (!made) return because(fmt::format("{} is no part of a chain", where(*op_)));
      nodes_[op_->output] = *made;
    }
    for (const TensorId id : results) chain_.program.results.push_back(nodes_.at(id));
    return std::move(chain_);
  }

 private:
  using Made = std::optional<std::size_t>;

  // A table is read if no digits say what it has
  std::span<const TensorId> read_by(const Operator& op) const {
    const auto* g = std::get_if<operators::Gather>(&op.kind);
    return g != nullptr && !digits_of(op, *g) ? data_inputs(op) : values_of(op);
  }
  std::optional<PlaceDigits> digits_of(const Operator& op, const operators::Gather& g) const {
    return digits_of_places(n_[op.inputs[1]], n_[op.inputs[0]].shape[static_cast<std::size_t>(g.axis)].value());
  }
  bool is_made(const std::vector<std::size_t>& operators, TensorId id) const {
    return std::ranges::any_of(operators, [&](std::size_t i) { return n_.operators[i].output == id; });
  }
  void read(TensorId id);
  std::size_t node(ChainNode made) {
    chain_.program.nodes.push_back(std::move(made));
    return chain_.program.nodes.size() - 1;
  }
  const Extents& shape(std::size_t node) const { return chain_.program.nodes[node].shape; }
  std::size_t input(std::size_t i = 0) const { return nodes_.at(op_->inputs[i]); }
  Extents result() const { return values(n_[op_->output].shape); }
  std::size_t map(Op op, std::vector<std::size_t> operands, const Extents& shape);
  std::size_t number(double x) { return node({.kind = Kind::number, .shape = {}, .number = x}); }
  std::size_t reduce(ReduceOp op, std::size_t from, std::size_t axis);
  std::size_t reshape(std::size_t from, Extents shape) {
    return node({.kind = Kind::reshape, .shape = std::move(shape), .operands = {from}});
  }
  std::size_t permute(std::size_t from, std::vector<int> order);
  std::size_t along_columns(TensorId id, std::size_t rank);

  Made add(const operators::Elementwise& e) { return mapped(e); }
  Made add(const operators::Map& m) { return mapped(m); }
  Made add(const operators::Identity&) { return input(); }
  Made add(const operators::Reshape&) { return reshape(input(), result()); }
  Made add(const operators::Flatten&) { return reshape(input(), result()); }
  Made add(const operators::ReshapeLike&) { return reshape(input(), result()); }
  Made add(const operators::PixelReshape&);
  Made add(const operators::Transpose& t) { return permute(input(), t.order); }
  Made add(const operators::Expand&) { return node({.kind = Kind::repeat, .shape = result(), .operands = {input()}}); }
  Made add(const operators::Tile&) { return node({.kind = Kind::repeat, .shape = result(), .operands = {input()}}); }
  Made add(const operators::Slice& s);
  Made add(const operators::Concat& c);
  Made add(const operators::Gather& g);
  Made add(const operators::Reduce& r);
  Made add(const operators::Softmax&);
  Made add(const operators::Normalisation& norm);
  Made add(const auto&) { return std::nullopt; }
  Made mapped(const tensors::NodeOperation& op);

  const Network& n_;
  const Operator* op_ = nullptr;
  Chain chain_;
  std::map<TensorId, std::size_t> nodes_;
};

void ChainBuilder::read(TensorId id) {
  if (nodes_.contains(id)) return;
  const NetworkTensor& t = n_[id];
  if (t.constant && t.constant->size() == 1) {
    nodes_[id] =
        node({.kind = Kind::number, .shape = values(t.shape), .number = static_cast<double>((*t.constant)[0])});
    return;
  }
  nodes_[id] = node({.kind = Kind::tensor, .shape = values(t.shape), .tensor = chain_.inputs.size()});
  chain_.inputs.push_back(id);
}

std::size_t ChainBuilder::map(Op op, std::vector<std::size_t> operands, const Extents& shape) {
  return node({.kind = Kind::map, .shape = shape, .operands = std::move(operands), .op = operators::Elementwise{op}});
}

ChainBuilder::Made ChainBuilder::mapped(const tensors::NodeOperation& op) {
  std::vector<std::size_t> operands;
  for (std::size_t i = 0; i < op_->inputs.size(); ++i) operands.push_back(input(i));
  return node({.kind = Kind::map, .shape = result(), .operands = std::move(operands), .op = op});
}

std::size_t ChainBuilder::reduce(ReduceOp op, std::size_t from, std::size_t axis) {
  Extents kept = shape(from);
  kept[axis] = 1;
  return node({.kind = Kind::reduce,
               .shape = std::move(kept),
               .operands = {from},
               .axis = static_cast<int>(axis),
               .reduction = op});
}

std::size_t ChainBuilder::permute(std::size_t from, std::vector<int> order) {
  Extents made;
  for (const int axis : order) made.push_back(shape(from)[static_cast<std::size_t>(axis)]);
  return node({.kind = Kind::permute, .shape = std::move(made), .operands = {from}, .order = std::move(order)});
}

ChainBuilder::Made ChainBuilder::add(const operators::PixelReshape&) {
  const Extents to = result();
  const std::size_t from = shape(input()).size() == 4 ? permute(input(), {0, 2, 3, 1}) : input();
  if (to.size() != 4) return reshape(from, to);
  return permute(reshape(from, {to[0], to[2], to[3], to[1]}), {0, 3, 1, 2});
}

ChainBuilder::Made ChainBuilder::add(const operators::Slice& s) {
  const Extents& from = shape(input());
  ChainNode made{.kind = Kind::range, .shape = result(), .operands = {input()}};
  made.begin.assign(from.size(), 0), made.step.assign(from.size(), 1);
  for (std::size_t i = 0; i < s.axes.size(); ++i) {
    const auto axis = static_cast<std::size_t>(s.axes[i]);
    const SliceRange range = slice_range(s, i, from[axis]);
    made.begin[axis] = range.begin, made.step[axis] = range.step;
  }
  return node(std::move(made));
}

ChainBuilder::Made ChainBuilder::add(const operators::Concat& c) {
  ChainNode made{.kind = Kind::join, .shape = result()};
  made.axis = c.axis;
  for (std::size_t i = 0; i < op_->inputs.size(); ++i) made.operands.push_back(input(i));
  return node(std::move(made));
}

// By a constant table of places, which may be sums of multiples of digits
ChainBuilder::Made ChainBuilder::add(const operators::Gather& g) {
  const auto axis = static_cast<std::size_t>(g.axis);
  ChainNode made{.kind = Kind::pick, .shape = shape(input()), .operands = {input()}, .axis = g.axis};
  made.shape[axis] = element_count(values(n_[op_->inputs[1]].shape));
  if (const auto places = digits_of(*op_, g)) {
    made.begin = {places->begin}, made.step = places->steps, made.parts = places->extents;
  } else if (is_table(n_[op_->inputs[1]], shape(input())[axis])) {
    made.tensor = chain_.program.nodes[nodes_.at(op_->inputs[1])].tensor;
  } else {
    return std::nullopt;
  }
  return reshape(node(std::move(made)), result());
}

// Along one axis; others may have an extent of 1
ChainBuilder::Made ChainBuilder::add(const operators::Reduce& r) {
  const Extents& from = shape(input());
  std::optional<std::size_t> along;
  for (const int axis : r.axes) {
    const auto a = static_cast<std::size_t>(axis);
    if (from[a] == 1) continue;
    if (along) return std::nullopt;
    along = a;
  }
  if (!along || r.op == ReduceOp::log_sum_exp) return std::nullopt;
  return reshape(reduce(r.op, input(), *along), result());
}

ChainBuilder::Made ChainBuilder::add(const operators::Softmax&) {
  const std::size_t x = input();
  const Extents to = shape(x);
  if (to.empty()) return std::nullopt;
  const std::size_t axis = column_axis(to.size());
  const std::size_t power = map(Op::exp, {map(Op::sub, {x, reduce(ReduceOp::max, x, axis)}, to)}, to);
  return map(Op::div, {power, reduce(ReduceOp::sum, power, axis)}, to);
}

// A vector of one element a column
std::size_t ChainBuilder::along_columns(TensorId id, std::size_t rank) {
  const std::size_t vector = nodes_.at(id);
  return rank == 4 ? reshape(vector, {element_count(shape(vector)), 1, 1}) : vector;
}

// Normalises the columns of each pixel
ChainBuilder::Made ChainBuilder::add(const operators::Normalisation& norm) {
  const Extents to = shape(input());
  if ((norm.op != Op::layer_norm && norm.op != Op::rms_norm) || to.empty()) return std::nullopt;
  const std::size_t axis = column_axis(to.size());
  Extents kept = to;
  kept[axis] = 1;
  std::size_t x = input();
  if (norm.op == Op::layer_norm) x = map(Op::sub, {x, reduce(ReduceOp::mean, x, axis)}, to);
  const std::size_t squares = reduce(ReduceOp::mean, map(Op::mul, {x, x}, to), axis);
  const std::size_t scale = map(Op::rsqrt, {map(Op::add, {squares, number(norm.eps)}, kept)}, kept);
  x = map(Op::mul, {x, scale}, to);
  if (norm.has_scale) x = map(Op::mul, {x, along_columns(op_->inputs[1], to.size())}, to);
  if (norm.has_shift) x = map(Op::add, {x, along_columns(op_->inputs[norm.has_scale ? 2 : 1], to.size())}, to);
  return x;
}

}  // namespace

std::span<const TensorId> values_of(const Operator& op) {
  const auto ids = data_inputs(op);
  return std::holds_alternative<operators::Gather>(op.kind) ? ids.first(1) : ids;
}

plan::Expected<Chain> chain_of(const Network& network, const std::vector<std::size_t>& operators,
                               const std::vector<TensorId>& results) {
  return ChainBuilder(network).build(operators, results);
}

}  // namespace unisono::network
