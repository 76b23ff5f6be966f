/// Operands that are repeated along axes, only for operators that broadcast by themselves, are read as they are; slices
/// that are taken by a constant index are ranges; padding by nothing is left out. Exporters write all of it for
/// attention.

#include <algorithm>
#include <cstring>
#include <numeric>

#include "network/dim.hpp"
#include "network/regions.hpp"
#include "unisono/error.hpp"

namespace unisono::network {

namespace {

class Broadcasts {
 public:
  explicit Broadcasts(const Network& network)
      : in_(network), out_(network), repeated_(network.tensors.size()), readers_(network.tensors.size(), 0) {
    out_.operators.clear();
    alias_.resize(network.tensors.size());
    std::iota(alias_.begin(), alias_.end(), TensorId{0});
    for (const TensorId id : in_.outputs) ++readers_[id];
    for (const Operator& op : in_.operators)
      for (const TensorId id : op.inputs) ++readers_[id];
  }

  Network run() {
    for (Operator op : in_.operators) {
      for (TensorId& id : op.inputs) id = alias_[id];
      if (leaves(op)) {
        alias_[op.output] = op.inputs[0];
        continue;
      }
      note_repeats(op);
      if (!slice(op)) out_.operators.push_back(with_own_broadcasts(op));
    }
    return std::move(out_);
  }

 private:
  bool leaves(const Operator& op) const;
  void note_repeats(const Operator& op);
  bool slice(const Operator& op);
  Operator with_own_broadcasts(Operator op) const;

  const Network& in_;
  Network out_;
  std::vector<std::optional<TensorId>> repeated_;  // by tensor: what it repeats, if its one reader might as well
  std::vector<int> readers_;                       // by tensor
  std::vector<TensorId> alias_;                    // by tensor: what stands for it
};

// Whether the result is the first input as it is, and no output
bool Broadcasts::leaves(const Operator& op) const {
  const auto all = [](const std::vector<std::int64_t>& x, std::int64_t value) {
    return std::all_of(x.begin(), x.end(), [&](std::int64_t v) { return v == value; });
  };
  if (std::find(in_.outputs.begin(), in_.outputs.end(), op.output) != in_.outputs.end()) return false;
  if (const auto* pad = std::get_if<operators::Pad>(&op.kind)) return all(pad->before, 0) && all(pad->after, 0);
  const auto* tile = std::get_if<operators::Tile>(&op.kind);
  return tile && all(tile->repeats, 1);
}

// Tensors that repeat axes of one element
void Broadcasts::note_repeats(const Operator& op) {
  const TensorId from = op.inputs.empty() ? 0 : op.inputs[0];
  const auto* tile = std::get_if<operators::Tile>(&op.kind);
  if (!tile && !std::holds_alternative<operators::Expand>(op.kind)) return;
  const Shape& shape = in_[from].shape;
  for (std::size_t i = 0; tile && i < shape.size(); ++i)
    if (tile->repeats[i] != 1 && !(shape[i] == Dim(1))) return;
  if (readers_[op.output] == 1 && in_[from].dtype == DType::f32) repeated_[op.output] = from;
}

// Reads what the operands repeat if the result's shape stays
Operator Broadcasts::with_own_broadcasts(Operator op) const {
  if (!std::holds_alternative<operators::Elementwise>(op.kind)) return op;
  for (TensorId& id : op.inputs) {
    if (!repeated_[id]) continue;
    const TensorId wide = id;
    id = *repeated_[wide];
    std::vector<const NetworkTensor*> types;
    for (const TensorId input : op.inputs) types.push_back(&in_[input]);
    if (!(infer_shape(op.kind, types, op.name) == in_[op.output].shape)) id = wide;
  }
  return op;
}

// x[i] along an axis as a range of one index and a reshape
bool Broadcasts::slice(const Operator& op) {
  const auto* g = std::get_if<operators::Gather>(&op.kind);
  if (!g || !in_[op.inputs[1]].bytes || in_[op.inputs[1]].dtype != DType::i64) return false;
  const Shape &from = in_[op.inputs[0]].shape, &to = in_[op.output].shape;
  const bool known = std::all_of(from.begin(), from.end(), [](const Dim& d) { return d.known(); });
  const auto axis = static_cast<std::size_t>(g->axis);
  if (!known || element_count(values(in_[op.inputs[1]].shape)) != 1 || axis >= from.size()) return false;
  std::int64_t at = 0;
  std::memcpy(&at, in_[op.inputs[1]].bytes->data(), sizeof at);
  if (at < 0) at += from[axis].value();
  if (at < 0 || at >= from[axis].value()) return false;  // an error of the run
  Shape range = from;
  range[axis] = Dim(1);
  const auto id = static_cast<TensorId>(out_.tensors.size());
  out_.tensors.push_back(
      {in_[op.output].name + "_range", in_[op.output].dtype, range, nullptr, nullptr, in_[op.output].keeps_f32});
  operators::Slice one{.starts = {at}, .ends = {at + 1}, .steps = {1}, .axes = {g->axis}};
  out_.operators.push_back({std::move(one), op.name, {op.inputs[0]}, id});
  out_.operators.push_back({operators::Reshape{.shape = values(to), .literal = true}, op.name, {id}, op.output});
  return true;
}

}  // namespace

Network broadcast_operands(const Network& network) { return Broadcasts(network).run(); }

}  // namespace unisono::network
