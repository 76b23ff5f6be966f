#include "network/attention_match.hpp"

#include <algorithm>
#include <limits>

#include "network/dim.hpp"
#include "network/regions.hpp"

namespace unisono::network {

TensorUses::TensorUses(const Network& n)
    : producer_(n.tensors.size(), nullptr), readers_(n.tensors.size()), output_(n.tensors.size(), false) {
  std::vector<bool> needed(n.tensors.size(), false);
  for (const TensorId id : n.outputs) output_[id] = needed[id] = true;
  for (std::size_t i = n.operators.size(); i-- > 0;) {
    const Operator& op = n.operators[i];
    if (!needed[op.output]) continue;
    producer_[op.output] = &op;
    for (const TensorId id : op.inputs) needed[id] = true;
    for (const TensorId id : data_inputs(op)) readers_[id].push_back(&op);
  }
}

const Operator* TensorUses::only_reader(TensorId id) const {
  return output_[id] || readers_[id].size() != 1 ? nullptr : readers_[id][0];
}

std::optional<float> constant_number(const NetworkTensor& t) {
  if (!t.constant || t.constant->size() != 1) return std::nullopt;
  return (*t.constant)[0];
}

namespace {

constexpr float hiding = -1e30F;   // what is chosen in place of a score that no key may have is below
constexpr int longest_chain = 16;  // operators between a product and the softmax

template <class K>
const K* kind_of(const Operator* op) {
  return op == nullptr ? nullptr : std::get_if<K>(&op->kind);
}

const operators::Map* map_of(const Operator* op, MapOp which) {
  const auto* m = kind_of<operators::Map>(op);
  return m != nullptr && m->op == which ? m : nullptr;
}

class Matcher {
 public:
  Matcher(const Network& n, const TensorUses& uses, const Operator& softmax) : n_(n), uses_(uses), softmax_(softmax) {}

  std::optional<AttentionMatch> run() {
    const Shape& shape = n_[softmax_.output].shape;
    if (shape.empty() || shape.size() == 4) return std::nullopt;  // of rank 4 it is over channels
    if (!scores(softmax_.inputs[0], longest_chain) || !weights()) return std::nullopt;
    std::reverse(match_.masks.begin(), match_.masks.end());
    const Shape &s = n_[match_.scores->output].shape, &p = n_[match_.result->inputs[0]].shape;
    const bool same_rows = s[s.size() - 2] == p[p.size() - 2] && s.back() == p.back() && s.back() == shape.back();
    if (!same_rows) return std::nullopt;
    return match_;
  }

 private:
  bool is_f32(TensorId id) const { return n_[id].dtype == DType::f32; }
  bool scores(TensorId id, int left);
  bool scaled(const Operator& op, bool divides, int left);
  bool masked(const Operator& op, int left);
  bool chosen(const Operator& op, int left);
  bool weights();
  bool guards_nan(TensorId id, const Operator** next) const;
  bool guards_hidden(const Operator& select, TensorId id) const;
  bool is_number(TensorId id, float x) const { return constant_number(n_[id]) == x; }

  const Network& n_;
  const TensorUses& uses_;
  const Operator& softmax_;
  AttentionMatch match_;
};

bool moves_nothing(const Network& n, const Operator& op) {
  const OperatorKind& k = op.kind;
  if (const auto* m = map_of(&op, MapOp::cast)) return m->to == n[op.inputs[0]].dtype;
  return std::holds_alternative<operators::Identity>(k) || std::holds_alternative<operators::Reshape>(k) ||
         std::holds_alternative<operators::Flatten>(k) || std::holds_alternative<operators::ReshapeLike>(k);
}

// From the softmax back to the product that makes what it reads. Nothing else may need what is between.
bool Matcher::scores(TensorId id, int left) {
  const Operator* op = uses_.producer(id);
  if (op == nullptr || left == 0 || !is_f32(id) || uses_.only_reader(id) == nullptr) return false;
  if (std::holds_alternative<operators::MatMul>(op->kind)) {
    match_.scores = op;
    return n_[id].shape.size() >= 2;
  }
  if (moves_nothing(n_, *op)) return scores(op->inputs[0], left - 1);
  if (const auto* e = kind_of<operators::Elementwise>(op)) {
    if (e->op == Op::mul || e->op == Op::div) return scaled(*op, e->op == Op::div, left);
    return e->op == Op::add && masked(*op, left);
  }
  return map_of(op, MapOp::select) != nullptr && chosen(*op, left);
}

// Ahead of all masks: what is found here is multiplied later than what is found from here on
bool Matcher::scaled(const Operator& op, bool divides, int left) {
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    const auto number = constant_number(n_[op.inputs[1 - i]]);
    if (!number || *number == 0 || (divides && i != 0)) continue;
    const AttentionMatch before = match_;
    if (scores(op.inputs[i], left - 1) && match_.masks.size() == before.masks.size()) {
      match_.scale *= divides ? 1 / static_cast<double>(*number) : static_cast<double>(*number);
      return true;
    }
    match_ = before;
  }
  return false;
}

bool Matcher::masked(const Operator& op, int left) {
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    const TensorId mask = op.inputs[1 - i];
    if (!(n_[op.inputs[i]].shape == n_[op.output].shape) || !is_f32(mask) || mask == op.inputs[i]) continue;
    const AttentionMatch before = match_;
    match_.masks.push_back({.values = mask, .shape = n_[op.output].shape});
    if (scores(op.inputs[i], left - 1)) return true;
    match_ = before;
  }
  return false;
}

// A choice between scores and a number next to minus infinity
bool Matcher::chosen(const Operator& op, int left) {
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
    const auto number = constant_number(n_[op.inputs[3 - i]]);
    if (!number || !(*number < hiding) || !(n_[op.inputs[i]].shape == n_[op.output].shape)) continue;
    match_.masks.push_back(
        {.values = op.inputs[3 - i], .condition = op.inputs[0], .hides = i == 2, .shape = n_[op.output].shape});
    return scores(op.inputs[i], left - 1);
  }
  return false;
}

// where(not p == p, 0, p)
bool Matcher::guards_nan(TensorId id, const Operator** next) const {
  const auto& readers = uses_.readers(id);
  if (uses_.is_output(id) || readers.size() != 3) return false;
  const auto find = [&](MapOp which) {
    const auto at =
        std::find_if(readers.begin(), readers.end(), [&](const Operator* op) { return map_of(op, which) != nullptr; });
    return at == readers.end() ? nullptr : *at;
  };
  const Operator *equal = find(MapOp::equal), *choice = find(MapOp::select);
  if (equal == nullptr || choice == nullptr || equal->inputs[0] != id || equal->inputs[1] != id) return false;
  const Operator* inverse = uses_.only_reader(equal->output);
  if (map_of(inverse, MapOp::logical_not) == nullptr || uses_.only_reader(inverse->output) != choice) return false;
  *next = choice;
  return choice->inputs[0] == inverse->output && choice->inputs[2] == id && is_number(choice->inputs[1], 0);
}

// where(max(bias) == -inf, 0, p), of the bias that is added to these scores or chooses among them
bool Matcher::guards_hidden(const Operator& select, TensorId id) const {
  if (select.inputs[2] != id || !is_number(select.inputs[1], 0)) return false;
  const float lowest = -std::numeric_limits<float>::infinity();
  const Operator* equal = uses_.producer(select.inputs[0]);
  if (map_of(equal, MapOp::equal) == nullptr || !is_number(equal->inputs[1], lowest)) return false;
  const Operator* most = uses_.producer(equal->inputs[0]);
  const auto* reduce = kind_of<operators::Reduce>(most);
  if (reduce == nullptr || reduce->op != ReduceOp::max) return false;
  const TensorId open = most->inputs[0];
  if (reduce->axes != std::vector<int>{static_cast<int>(n_[open].shape.size()) - 1}) return false;
  std::optional<TensorId> added, visible;  // masks are still in the order from the softmax back
  for (const ScoreMask& m : match_.masks) {
    if (m.condition && (m.hides || !is_number(m.values, lowest))) return false;
    (m.condition ? visible : added) = m.condition ? *m.condition : m.values;
  }
  if (match_.masks.size() != (added ? 1U : 0U) + (visible ? 1U : 0U)) return false;
  if (!visible) return added == open;
  const Operator* choice = uses_.producer(open);
  if (map_of(choice, MapOp::select) == nullptr || choice->inputs[0] != *visible) return false;
  const bool same = added ? choice->inputs[1] == *added : is_number(choice->inputs[1], 0);
  return same && is_number(choice->inputs[2], lowest);
}

// From the softmax on to the product with the values
bool Matcher::weights() {
  using Guard = operators::Attention::Guard;
  TensorId id = softmax_.output;
  for (int left = longest_chain; left > 0; --left) {
    if (!is_f32(id)) return false;
    const Operator* next = uses_.only_reader(id);
    if (next == nullptr) {
      if (match_.guard != Guard::none || !guards_nan(id, &next)) return false;
      match_.guard = Guard::all;
    } else if (std::holds_alternative<operators::MatMul>(next->kind)) {
      match_.result = next;
      return next->inputs[0] == id && n_[id].shape.size() >= 2 && is_f32(next->inputs[1]);
    } else if (map_of(next, MapOp::select) != nullptr) {
      if (match_.guard != Guard::none || !guards_hidden(*next, id)) return false;
      match_.guard = Guard::unseeing;
    } else if (!moves_nothing(n_, *next)) {
      return false;
    }
    id = next->output;
  }
  return false;
}

}  // namespace

std::optional<AttentionMatch> match_attention(const Network& network, const TensorUses& uses, const Operator& softmax) {
  return Matcher(network, uses, softmax).run();
}

}  // namespace unisono::network
