/// Attention in the forms in which it is exported: two MatMuls with a softmax between become one operator, which takes
/// its matrices from where they lie ahead of reshapes, permutes and ranges, and leaves its own behind them.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "network/attention_match.hpp"
#include "network/dim.hpp"
#include "network/regions.hpp"
#include "products/kernel.hpp"

namespace unisono::network {

namespace {

using Pieces = std::vector<ViewPiece>;

constexpr int most_followed = 1 << 20, longest_way = 16;  // operators ahead of attention that are followed

// An operand by what lies in memory: a view of it, and a factor
struct Source {
  ElementView view;
  double factor = 1;
};

// Whether rows and columns lie a step apart
bool are_matrices(const ElementView& view) {
  const auto count = std::min<std::ptrdiff_t>(2, std::ssize(view.axes));
  return std::all_of(view.axes.end() - count, view.axes.end(), [](const Pieces& p) { return p.size() <= 1; });
}

class Rewriter {
 public:
  Rewriter(const Network& network, std::int64_t widest_head, const std::vector<bool>& kept)
      : in_(network), widest_head_(widest_head), kept_(kept), uses_(network), out_(network) {}

  Network run();

 private:
  struct Plan {
    operators::Attention kind;
    std::vector<TensorId> inputs;
    TensorId output = 0;
  };

  std::optional<Plan> plan(const AttentionMatch& m);
  Source source(TensorId id, int most = most_followed) const;
  Source matrices(TensorId id) const;
  std::optional<double> factor_of(const Operator& op, std::size_t* operand) const;
  std::optional<ElementView> mask_view(const ScoreMask& mask, const Shape& scores);
  TensorId chosen_mask(const ScoreMask& mask);
  bool keeps_f32(const Plan& p) const;
  void add_choices(std::optional<TensorId> condition);
  std::optional<ElementView> result_view(const AttentionMatch& m, TensorId* output) const;
  TensorId add_tensor(const NetworkTensor& t) {
    out_.tensors.push_back(t);
    return static_cast<TensorId>(out_.tensors.size() - 1);
  }

  const Network& in_;
  std::int64_t widest_head_;
  const std::vector<bool>& kept_;
  TensorUses uses_;
  Network out_;
  std::vector<Operator> choices_;  // what makes masks of conditions
};

// A product or a quotient with a constant number
std::optional<double> Rewriter::factor_of(const Operator& op, std::size_t* operand) const {
  const auto* e = std::get_if<operators::Elementwise>(&op.kind);
  if (e == nullptr || (e->op != Op::mul && e->op != Op::div)) return std::nullopt;
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    const auto number = constant_number(in_[op.inputs[1 - i]]);
    if (!number || *number == 0 || (e->op == Op::div && i == 1)) continue;
    if (!(in_[op.inputs[i]].shape == in_[op.output].shape)) continue;
    *operand = i;
    return e->op == Op::mul ? static_cast<double>(*number) : 1 / static_cast<double>(*number);
  }
  return std::nullopt;
}

// Back through at most so many operators that move elements or multiply all by a number, as far as there is a view of
// what they made
Source Rewriter::source(TensorId id, int most) const {
  const Operator* op = uses_.producer(id);
  if (op == nullptr || most == 0) return {whole_view(id, in_[id].shape)};
  std::size_t operand = 0;
  const auto factor = factor_of(*op, &operand);
  const bool moves = !op->inputs.empty() && through(in_, *op, whole_view(op->inputs[0], in_[op->inputs[0]].shape));
  if (!factor && !moves) return {whole_view(id, in_[id].shape)};
  Source s = source(op->inputs[operand], most - 1);
  if (factor) return {std::move(s.view), s.factor * *factor};
  if (auto view = through(in_, *op, s.view)) return {std::move(*view), s.factor};
  return {whole_view(id, in_[id].shape)};
}

// The same for matrices whose rows and columns lie a step apart: as far back as they do
Source Rewriter::matrices(TensorId id) const {
  Source s = source(id);
  for (int most = longest_way; most >= 0 && !are_matrices(s.view); --most) s = source(id, most);
  return s;
}

// where(condition, 0, number), in the condition's own shape. Layers that share a condition share its mask.
TensorId Rewriter::chosen_mask(const ScoreMask& mask) {
  const NetworkTensor& condition = in_[*mask.condition];
  const float hidden = *constant_number(in_[mask.values]);
  const std::size_t place = mask.hides ? 1 : 2;
  for (const Operator& op : choices_)
    if (op.inputs[0] == *mask.condition && constant_number(out_[op.inputs[place]]) == hidden) return op.output;
  const auto number = [&](float x) {
    return add_tensor(
        {condition.name + "_number", DType::f32, {}, std::make_shared<std::vector<float>>(1, x), nullptr});
  };
  const std::string name =
      fmt::format("{}_mask{}", condition.name, choices_.empty() ? "" : std::to_string(choices_.size()));
  const TensorId stays = number(0), never = number(hidden);
  const TensorId made = add_tensor({name, DType::f32, condition.shape, nullptr, nullptr});
  choices_.push_back({operators::Map{.op = MapOp::select},
                      name,
                      {*mask.condition, mask.hides ? never : stays, mask.hides ? stays : never},
                      made});
  return made;
}

// Those of a condition that has just been made, or of all that no operator makes
void Rewriter::add_choices(std::optional<TensorId> condition) {
  for (const Operator& op : choices_)
    if (condition ? op.inputs[0] == *condition : uses_.producer(op.inputs[0]) == nullptr) out_.operators.push_back(op);
}

// In the shape of the scores
std::optional<ElementView> Rewriter::mask_view(const ScoreMask& mask, const Shape& scores) {
  if (mask.condition) {
    const Shape& shape = in_[*mask.condition].shape;
    return in_shape(broadcast(whole_view(chosen_mask(mask), shape), shape, mask.shape), scores);
  }
  Source s = matrices(mask.values);
  if (s.factor != 1) s.view = whole_view(mask.values, in_[mask.values].shape);
  return in_shape(broadcast(s.view, in_[mask.values].shape, mask.shape), scores);
}

// The matrices of the result in the tensor that reshapes and permutes make of it, as many of them as there is a view of
std::optional<ElementView> Rewriter::result_view(const AttentionMatch& m, TensorId* output) const {
  std::vector<const Operator*> behind;
  TensorId id = m.result->output;
  std::optional<ElementView> best = whole_view(id, in_[id].shape);
  *output = id;
  while (const Operator* next = uses_.only_reader(id)) {
    const auto* t = std::get_if<operators::Transpose>(&next->kind);
    const bool moves = t != nullptr || std::holds_alternative<operators::Reshape>(next->kind) ||
                       std::holds_alternative<operators::Flatten>(next->kind);
    if (!moves) break;
    behind.push_back(next);
    id = next->output;
    std::optional<ElementView> view = whole_view(id, in_[id].shape);
    for (std::size_t i = behind.size(); view && i-- > 0;) {
      const auto* order = std::get_if<operators::Transpose>(&behind[i]->kind);
      if (order == nullptr) {
        view = in_shape(*view, in_[behind[i]->inputs[0]].shape);
        continue;
      }
      std::vector<int> inverse(order->order.size());
      for (std::size_t a = 0; a < inverse.size(); ++a)
        inverse[static_cast<std::size_t>(order->order[a])] = static_cast<int>(a);
      view = permuted(*view, inverse);
    }
    if (view && are_matrices(*view)) best = std::move(view), *output = id;
  }
  return best;
}

// What all lists have in common at their inner ends: an extent, and a step of each
struct Joint {
  Dim extent;
  std::vector<ViewPiece> pieces;
};
std::optional<Joint> take_joint(std::vector<Pieces>& lists) {
  Joint j;
  const auto known = [](const Pieces& p) { return p.back().extent.known(); };
  if (std::any_of(lists.begin(), lists.end(), [](const Pieces& p) { return p.empty(); })) return std::nullopt;
  const bool all_known = std::all_of(lists.begin(), lists.end(), known);
  j.extent = lists[0].back().extent;
  for (const Pieces& p : lists)
    if (all_known && p.back().extent.value() < j.extent.value()) j.extent = p.back().extent;
  for (Pieces& p : lists) {
    ViewPiece& last = p.back();
    j.pieces.push_back({last.axis, last.step, j.extent});
    if (last.extent == j.extent) {
      p.pop_back();
      continue;
    }
    if (!all_known || j.extent.value() < 1 || last.extent.value() % j.extent.value() != 0) return std::nullopt;
    last.step *= j.extent.value();
    last.extent = last.extent.value() / j.extent.value();
  }
  return j;
}

// The batch of each view (all axes but two) as common axes
std::optional<std::vector<Joint>> common_batch(const std::vector<ElementView>& views) {
  std::vector<Pieces> lists;
  for (const ElementView& v : views) lists.push_back(joined_pieces({v.axes.begin(), v.axes.end() - 2}));
  std::vector<Joint> joints;
  while (std::any_of(lists.begin(), lists.end(), [](const Pieces& p) { return !p.empty(); })) {
    auto joint = take_joint(lists);
    if (!joint) return std::nullopt;
    joints.insert(joints.begin(), std::move(*joint));
  }
  if (joints.size() > kBatchAxes) return std::nullopt;
  return joints;
}

// The layouts of all views; nothing if rows or columns of one do not lie a step apart
std::optional<std::vector<operators::MatrixLayout>> layouts(const std::vector<ElementView>& views,
                                                            const std::vector<Joint>& batch) {
  std::vector<operators::MatrixLayout> result;
  for (std::size_t i = 0; i < views.size(); ++i) {
    operators::MatrixLayout layout{.begin = views[i].begin, .axes = {}};
    for (const Joint& j : batch) layout.axes.push_back({j.pieces[i].axis, j.pieces[i].step});
    for (auto axis = views[i].axes.end() - 2; axis != views[i].axes.end(); ++axis) {
      if (axis->size() > 1) return std::nullopt;
      layout.axes.push_back(axis->empty() ? operators::MatrixAxis{}
                                          : operators::MatrixAxis{(*axis)[0].axis, (*axis)[0].step});
    }
    result.push_back(std::move(layout));
  }
  return result;
}

// Matrices of shape `own`, a view of which this is, for all of a batch: the shape `all` but for its last two axes
ElementView spread(const ElementView& view, const Shape& own, Shape all) {
  all.resize(all.size() - 2);
  all.insert(all.end(), own.end() - 2, own.end());
  return broadcast(view, own, all);
}

std::optional<Rewriter::Plan> Rewriter::plan(const AttentionMatch& m) {
  const Shape &scores = in_[m.scores->output].shape, &weights = in_[m.result->inputs[0]].shape,
              &result = in_[m.result->output].shape;
  if (!std::equal(weights.begin(), weights.end() - 1, result.begin(), result.end() - 1)) return std::nullopt;
  Plan p;
  Source q = matrices(m.scores->inputs[0]), k = matrices(m.scores->inputs[1]), v = matrices(m.result->inputs[1]);
  if (v.factor != 1) v.view = whole_view(m.result->inputs[1], in_[m.result->inputs[1]].shape);
  std::vector<ElementView> views{spread(q.view, in_[m.scores->inputs[0]].shape, scores),
                                 spread(k.view, in_[m.scores->inputs[1]].shape, scores),
                                 spread(v.view, in_[m.result->inputs[1]].shape, weights)};
  std::swap(views[1].axes.back(), views[1].axes[views[1].axes.size() - 2]);
  for (const ScoreMask& mask : m.masks) {
    auto view = mask_view(mask, scores);
    if (!view) return std::nullopt;
    views.push_back(std::move(*view));
    p.kind.replaces.push_back(mask.condition.has_value());
  }
  const auto y = result_view(m, &p.output);
  for (const ElementView& view : views) p.inputs.push_back(view.base);
  views.push_back(*y);
  const auto batch = common_batch(views);
  if (!batch) return std::nullopt;
  auto all = layouts(views, *batch);
  if (!all) return std::nullopt;
  p.kind.result = std::move(all->back());
  all->pop_back();
  p.kind.operands = std::move(*all);
  p.kind.scale = m.scale * q.factor * k.factor;
  p.kind.guard = m.guard;
  Shape extents;
  for (const Joint& j : *batch) extents.push_back(j.extent);
  for (const Dim& d : {scores[scores.size() - 2], scores.back(), in_[m.scores->inputs[0]].shape.back(), result.back()})
    extents.push_back(d);
  for (const Dim& d : extents) p.kind.extents.push_back(d.known() ? d.value() : 0);
  return p;
}

// Heads as wide as the kernel takes, of tensors that kernels have
bool is_served(const Network& n, const operators::Attention& a, const std::vector<TensorId>& inputs,
               std::int64_t widest_head) {
  const auto width = *(a.extents.end() - 2), value_width = a.extents.back(), keys = *(a.extents.end() - 3);
  const auto fits = [&](std::int64_t w) { return w >= 1 && w <= widest_head; };
  const bool f32 = std::all_of(inputs.begin(), inputs.end(), [&](TensorId id) { return n[id].dtype == DType::f32; });
  return f32 && fits(width) && fits(value_width) && keys >= 0 && a.scale > 0 && std::isfinite(a.scale) &&
         a.replaces.size() <= kAttentionMasks;
}

bool Rewriter::keeps_f32(const Plan& p) const {
  const auto is_kept = [&](TensorId id) { return id < kept_.size() && kept_[id]; };
  return is_kept(p.output) || std::any_of(p.inputs.begin(), p.inputs.begin() + 3, is_kept);
}

Network Rewriter::run() {
  std::map<TensorId, Plan> plans;  // by what they make
  for (const Operator& op : in_.operators) {
    if (uses_.producer(op.output) != &op || !std::holds_alternative<operators::Softmax>(op.kind)) continue;
    const auto match = match_attention(in_, uses_, op);
    if (!match) continue;
    auto p = plan(*match);
    if (p && !keeps_f32(*p) && is_served(out_, p->kind, p->inputs, widest_head_))
      plans.emplace(p->output, std::move(*p));
  }
  if (plans.empty()) return in_;
  out_.operators.clear();
  add_choices(std::nullopt);
  for (const Operator& op : in_.operators) {
    const auto found = plans.find(op.output);
    if (found == plans.end()) {
      out_.operators.push_back(op);
    } else {
      out_.operators.push_back({std::move(found->second.kind), op.name, std::move(found->second.inputs), op.output});
    }
    add_choices(op.output);
  }
  const TensorUses uses(out_);
  std::vector<Operator> live;
  for (const Operator& op : out_.operators)
    if (uses.producer(op.output) == &op) live.push_back(op);
  out_.operators = std::move(live);
  return std::move(out_);
}

}  // namespace

Network with_attention(const Network& network, std::int64_t widest_head, const std::vector<bool>& kept) {
  return Rewriter(network, widest_head, kept).run();
}

}  // namespace unisono::network
