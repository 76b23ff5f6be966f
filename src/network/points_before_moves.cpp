/// Pointwise operators on a contraction's result that was reshaped or permuted are computed before that, where they can
/// be part of the contraction's epilogue: exporters write `layer_norm(conv(x).flatten(2).transpose(1, 2))`.

#include <algorithm>

#include "network/dim.hpp"
#include "network/element_view.hpp"
#include "network/moves.hpp"
#include "network/regions.hpp"
#include "network/space.hpp"

namespace unisono::network {

namespace {

class PointsBeforeMoves {
 public:
  explicit PointsBeforeMoves(const Network& network)
      : out_(network), move_(network.tensors.size()), of_contraction_(network.tensors.size(), false) {
    operators_.swap(out_.operators);
  }

  Network run() {
    for (Operator& op : operators_) {
      if (joins_moves(out_, op)) move_[op.output] = op;
      if (is_contraction(op.kind)) of_contraction_[op.output] = true;
      if (!is_pointwise(op.kind) || !compute_before(op)) out_.operators.push_back(std::move(op));
    }
    return std::move(out_);
  }

 private:
  // Moves, the last first, and what they begin with
  struct Moved {
    std::vector<Operator> moves;
    TensorId base = 0;
  };
  Moved moved(TensorId id) const {
    Moved m{{}, id};
    while (move_[m.base]) {
      m.moves.push_back(*move_[m.base]);
      m.base = m.moves.back().inputs[0];
    }
    return m;
  }
  bool alike(const Moved& a, const Moved& b) const;
  bool keeps_columns(const Moved& m, TensorId to) const;
  bool normalises_columns(const Operator& op) const;
  bool is_of_columns(const NetworkTensor& t, const Shape& shape) const;
  TensorId of_columns(NetworkTensor t, const Shape& shape);
  bool compute_before(const Operator& op);
  void move(TensorId from, const Moved& m, TensorId to);
  TensorId add(NetworkTensor t) {
    out_.tensors.push_back(std::move(t));
    move_.emplace_back();
    of_contraction_.push_back(false);
    return static_cast<TensorId>(out_.tensors.size() - 1);
  }

  Network out_;
  std::vector<Operator> operators_;            // those of the network as it was
  std::vector<std::optional<Operator>> move_;  // by tensor: what makes it, if that is a move
  std::vector<bool> of_contraction_;           // by tensor: made by one, or element by element of its result
};

bool PointsBeforeMoves::alike(const Moved& a, const Moved& b) const {
  const auto same = [&](const Operator& x, const Operator& y) {
    return x.kind == y.kind && out_[x.output].shape == out_[y.output].shape;
  };
  return out_[a.base].shape == out_[b.base].shape && std::ranges::equal(a.moves, b.moves, same);
}

// Whether the elements of a pixel, along the columns, are one after the other those of one
bool PointsBeforeMoves::keeps_columns(const Moved& m, TensorId to) const {
  const Shape &from = out_[m.base].shape, &shape = out_[to].shape;
  if (from.empty() || shape.empty()) return false;
  std::optional<ElementView> view = whole_view(m.base, from);
  for (auto move = m.moves.rbegin(); view && move != m.moves.rend(); ++move) view = through(out_, *move, *view);
  return view && view->axes[column_axis(shape.size())] == whole_view(m.base, from).axes[column_axis(from.size())];
}

bool PointsBeforeMoves::normalises_columns(const Operator& op) const {
  const auto* n = std::get_if<operators::Normalisation>(&op.kind);
  return std::holds_alternative<operators::Softmax>(op.kind) ||
         (n != nullptr && (n->op == Op::layer_norm || n->op == Op::rms_norm));
}

// Whether it is a constant of one element a column of tensors of this shape
bool PointsBeforeMoves::is_of_columns(const NetworkTensor& t, const Shape& shape) const {
  if (!t.constant || shape.empty()) return false;
  const std::size_t axis = column_axis(shape.size()), from_last = shape.size() - axis;
  return shape[axis].known() && element_count(values(t.shape)) == shape[axis].value() && t.shape.size() >= from_last &&
         t.shape[t.shape.size() - from_last] == shape[axis];
}

// The same beside tensors of another shape with these columns
TensorId PointsBeforeMoves::of_columns(NetworkTensor t, const Shape& shape) {
  const std::size_t axis = column_axis(shape.size());
  t.shape.assign(shape.size() - axis, Dim(1));
  t.shape.front() = shape[axis];
  t.name += "_before";
  return add(std::move(t));
}

bool PointsBeforeMoves::compute_before(const Operator& op) {
  const bool elementwise = std::holds_alternative<operators::Elementwise>(op.kind);
  if (!elementwise && (!normalises_columns(op) || !keeps_columns(moved(op.inputs[0]), op.output))) return false;
  const NetworkTensor& result = out_[op.output];
  std::optional<Moved> first;
  bool contraction = false;
  Operator before = op;
  std::vector<TensorId*> of_each_column;
  for (TensorId& id : before.inputs) {
    const NetworkTensor& t = out_[id];
    if (!elementwise && first) break;  // scale and shift of columns
    if (t.keeps_f32 != result.keeps_f32) return false;
    if (t.is_constant() && element_count(values(t.shape)) == 1) continue;
    if (is_of_columns(t, result.shape)) {
      of_each_column.push_back(&id);
      continue;
    }
    const Moved m = moved(id);
    if (m.moves.empty() || !(t.shape == result.shape) || (first && !alike(*first, m))) return false;
    contraction = contraction || of_contraction_[m.base];
    if (!first) first = m;
    id = m.base;
  }
  if (!first || !contraction || (!of_each_column.empty() && !keeps_columns(*first, op.output))) return false;
  const std::size_t rank = out_[first->base].shape.size();
  if (elementwise && std::ranges::any_of(op.inputs, [&](TensorId id) {
        return out_[id].is_constant() && out_[id].shape.size() > rank;
      }))
    return false;
  NetworkTensor made = result;
  made.shape = out_[first->base].shape;
  made.name += "_before";
  for (TensorId* const id : of_each_column) *id = of_columns(out_[*id], made.shape);
  before.output = add(std::move(made));
  of_contraction_[before.output] = true;
  const TensorId last = before.output;
  out_.operators.push_back(std::move(before));
  move(last, *first, op.output);
  return true;
}

// The same moves again, from another tensor to `to`
void PointsBeforeMoves::move(TensorId from, const Moved& m, TensorId to) {
  for (auto it = m.moves.rbegin(); it != m.moves.rend(); ++it) {
    Operator again = *it;
    NetworkTensor t = out_[again.output];
    again.inputs[0] = from;
    from = again.output = std::next(it) == m.moves.rend() ? to : add(std::move(t));
    move_[from] = again;
    out_.operators.push_back(std::move(again));
  }
}

}  // namespace

Network points_before_moves(const Network& network) { return PointsBeforeMoves(network).run(); }

}  // namespace unisono::network
