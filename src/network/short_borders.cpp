#include "network/short_borders.hpp"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

namespace unisono::network {

namespace {

class ShortBorders {
 public:
  ShortBorders(Network network, DType element)
      : n_(std::move(network)), element_(element), readers_(n_.tensors.size(), 0), alias_(n_.tensors.size()) {
    for (TensorId id = 0; id < alias_.size(); ++id) alias_[id] = id;
    for (const Operator& op : n_.operators)
      for (const TensorId id : op.inputs) ++readers_[id];
  }

  Network run() {
    for (std::size_t i = 0; i < n_.operators.size(); ++i)
      if (is_behind_input(n_.operators[i]) || is_ahead_of_output(n_.operators[i])) take(i);
    std::vector<Operator> left;
    for (std::size_t i = 0; i < n_.operators.size(); ++i)
      if (!dropped_.contains(i)) left.push_back(std::move(n_.operators[i]));
    n_.operators = std::move(left);
    for (Operator& op : n_.operators) {
      for (TensorId& id : op.inputs) id = alias_[id];
      op.output = alias_[op.output];
    }
    return std::move(n_);
  }

 private:
  static bool has(const std::vector<TensorId>& ids, TensorId id) { return std::ranges::find(ids, id) != ids.end(); }
  bool casts(const Operator& op, DType from, DType to) const {
    const auto* const map = std::get_if<operators::Map>(&op.kind);
    return map != nullptr && map->op == MapOp::cast && map->to == to && n_[op.inputs[0]].dtype == from;
  }
  bool is_behind_input(const Operator& op) const {
    return casts(op, element_, DType::f32) && has(n_.inputs, op.inputs[0]) && readers_[op.inputs[0]] == 1 &&
           !has(n_.outputs, op.inputs[0]) && !has(n_.outputs, op.output) && !n_[op.output].keeps_f32;
  }
  bool is_ahead_of_output(const Operator& op) const {
    const TensorId from = op.inputs[0];
    return casts(op, DType::f32, element_) && has(n_.outputs, op.output) && readers_[op.output] == 0 &&
           !has(n_.inputs, from) && !has(n_.outputs, from) && !n_[from].is_constant() && !n_[from].keeps_f32 &&
           !is_border(from);
  }
  // Whether a cast behind an input gives it, which is the input itself by now
  bool is_border(TensorId id) const { return alias_[id] != id; }

  // What is computed takes the place of the border's tensor
  void take(std::size_t i) {
    const Operator& op = n_.operators[i];
    const bool is_input = has(n_.inputs, op.inputs[0]);
    const TensorId border = is_input ? op.inputs[0] : op.output, inner = is_input ? op.output : op.inputs[0];
    n_.tensors[border].dtype = DType::f32;
    alias_[inner] = border;
    std::ranges::replace(n_.outputs, inner, border);
    dropped_.insert(i);
  }

  Network n_;
  DType element_;
  std::vector<int> readers_;     // by tensor
  std::vector<TensorId> alias_;  // by tensor: what stands for it
  std::set<std::size_t> dropped_;
};

}  // namespace

Network with_short_borders(Network network, DType element) { return ShortBorders(std::move(network), element).run(); }

}  // namespace unisono::network
