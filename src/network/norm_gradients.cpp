/// Gradients of normalisations over groups of channels, as gradients() writes them, become operators::NormGradient.
///
/// With x̂ = (x − mean)·r and h = g·scale: dx = (h − mean(h) − x̂·mean(h·x̂))·r, d scale = Σ g·x̂, d shift = Σ g; and of a
/// bias ahead Σ dx. The kernel finds all of these from sums over x and g, so mean, variance and x̂ need not be computed
/// again.

#include <algorithm>
#include <map>
#include <optional>

#include "network/attention_match.hpp"
#include "network/regions.hpp"

namespace unisono::network {

namespace {

using operators::NormGradient;

struct NormMatch {
  TensorId x = 0, g = 0;
  std::optional<TensorId> scale;
  TensorId unit = 0;  ///< x̂
  std::int64_t groups = 1;
  double eps = 0;
};

class NormMatcher {
 public:
  NormMatcher(const Network& n, const TensorUses& uses) : n_(n), uses_(uses) {}

  /// What is around the last multiplication of an input's gradient.
  std::optional<NormMatch> of_input(const Operator& op) const;
  /// What a sum over all but channels is, where `input` is the gradient of the input.
  std::optional<NormGradient::Of> vector_of(const Operator& op, const NormMatch& m, TensorId input) const;

 private:
  struct Mean {
    TensorId of = 0;
    std::int64_t groups = 1;
  };
  using Pair = std::pair<TensorId, TensorId>;

  const Operator* made_by(TensorId id, Op which, std::size_t inputs) const {
    const Operator* op = uses_.producer(id);
    const auto* e = op == nullptr ? nullptr : std::get_if<operators::Elementwise>(&op->kind);
    return e != nullptr && e->op == which && op->inputs.size() == inputs ? op : nullptr;
  }
  template <class Kind>
  const Operator* made_by(TensorId id) const {
    const Operator* op = uses_.producer(id);
    return op != nullptr && std::holds_alternative<Kind>(op->kind) ? op : nullptr;
  }
  /// The other factor of a product, one of which is `known`.
  std::optional<TensorId> factor(TensorId product, TensorId known) const;
  std::optional<TensorId> through_reshape(TensorId id) const;
  const Operator* reduction(TensorId id, ReduceOp which, const std::vector<int>& axes, bool keep) const;
  std::optional<Mean> mean(TensorId id) const;
  std::optional<Mean> mean_of_groups(TensorId id) const;
  bool is_mean(TensorId id, TensorId of, std::int64_t groups) const {
    const auto m = mean(id);
    return m && m->of == of && m->groups == groups;
  }
  bool root(TensorId r, NormMatch& m, TensorId& centred) const;
  bool scaled(TensorId h, NormMatch& m) const;

  const Network& n_;
  const TensorUses& uses_;
};

std::optional<TensorId> NormMatcher::factor(TensorId product, TensorId known) const {
  const Operator* op = made_by(product, Op::mul, 2);
  if (op == nullptr || (op->inputs[0] != known && op->inputs[1] != known)) return std::nullopt;
  return op->inputs[0] == known ? op->inputs[1] : op->inputs[0];
}

std::optional<TensorId> NormMatcher::through_reshape(TensorId id) const {
  const Operator* op = made_by<operators::Reshape>(id);
  return op == nullptr ? std::nullopt : std::optional(op->inputs[0]);
}

const Operator* NormMatcher::reduction(TensorId id, ReduceOp which, const std::vector<int>& axes, bool keep) const {
  const Operator* op = made_by<operators::Reduce>(id);
  if (op == nullptr) return nullptr;
  const auto& r = std::get<operators::Reduce>(op->kind);
  return r.op == which && r.axes == axes && r.keep == keep ? op : nullptr;
}

// (N,C,1,1), or with one group (N,1,1,1)
std::optional<NormMatcher::Mean> NormMatcher::mean(TensorId id) const {
  if (n_[id].shape.size() != 4) return std::nullopt;
  if (const Operator* each = reduction(id, ReduceOp::mean, {2, 3}, true))
    return n_[each->inputs[0]].shape.size() == 4 && n_[each->inputs[0]].shape[1].known()
               ? std::optional(Mean{each->inputs[0], n_[each->inputs[0]].shape[1].value()})
               : std::nullopt;
  if (const Operator* all = reduction(id, ReduceOp::mean, {1}, true)) {
    const Operator* each = reduction(all->inputs[0], ReduceOp::mean, {2, 3}, true);
    return each == nullptr ? std::nullopt : std::optional(Mean{each->inputs[0], 1});
  }
  return mean_of_groups(id);
}

// The means of channels, (N,groups,C/groups), those of groups, repeated, and (N,C,1,1) again
std::optional<NormMatcher::Mean> NormMatcher::mean_of_groups(TensorId id) const {
  const auto repeated = through_reshape(id);
  const Operator* expand = repeated ? made_by<operators::Expand>(*repeated) : nullptr;
  const Operator* of_groups = expand == nullptr ? nullptr : reduction(expand->inputs[0], ReduceOp::mean, {2}, true);
  if (of_groups == nullptr) return std::nullopt;
  const TensorId grouped = of_groups->inputs[0];
  const Shape& s = n_[grouped].shape;
  if (s.size() != 3 || expand->inputs[1] != grouped || !s[1].known()) return std::nullopt;
  const auto each = through_reshape(grouped);
  const Operator* of_channels = each ? reduction(*each, ReduceOp::mean, {2, 3}, true) : nullptr;
  if (of_channels == nullptr) return std::nullopt;
  const Shape &x = n_[of_channels->inputs[0]].shape, &y = n_[id].shape;
  const bool same = x.size() == 4 && s[0] == x[0] && y[0] == x[0] && y[1] == x[1];
  return same ? std::optional(Mean{of_channels->inputs[0], s[1].value()}) : std::nullopt;
}

// r = rsqrt(mean((x − mean(x))²) + eps)
bool NormMatcher::root(TensorId r, NormMatch& m, TensorId& centred) const {
  const Operator* rsqrt = made_by(r, Op::rsqrt, 1);
  const Operator* sum = rsqrt == nullptr ? nullptr : made_by(rsqrt->inputs[0], Op::add, 2);
  const auto eps = sum == nullptr ? std::nullopt : constant_number(n_[sum->inputs[1]]);
  const auto variance = eps ? mean(sum->inputs[0]) : std::nullopt;
  const Operator* square = variance ? made_by(variance->of, Op::square, 1) : nullptr;
  const Operator* difference = square == nullptr ? nullptr : made_by(square->inputs[0], Op::sub, 2);
  if (difference == nullptr) return false;
  m.x = difference->inputs[0], m.groups = variance->groups, m.eps = static_cast<double>(*eps);
  centred = square->inputs[0];
  return is_mean(difference->inputs[1], m.x, m.groups);
}

// h = g·scale, of a scale (C) that is reshaped to (C,1,1); or h = g
bool NormMatcher::scaled(TensorId h, NormMatch& m) const {
  m.g = h;
  const Operator* product = made_by(h, Op::mul, 2);
  const auto vector = product == nullptr ? std::nullopt : through_reshape(product->inputs[1]);
  if (!vector) return true;
  const Shape &v = n_[*vector].shape, &as = n_[product->inputs[1]].shape, &x = n_[m.x].shape;
  if (v.size() == 1 && as.size() == 3 && v[0] == x[1] && as[0] == x[1]) m.g = product->inputs[0], m.scale = *vector;
  return true;
}

std::optional<NormMatch> NormMatcher::of_input(const Operator& op) const {
  const auto* e = std::get_if<operators::Elementwise>(&op.kind);
  if (e == nullptr || e->op != Op::mul || n_[op.output].shape.size() != 4) return std::nullopt;
  const TensorId r = op.inputs[1];
  const Operator* rest = made_by(op.inputs[0], Op::sub, 2);
  const Operator* without_mean = rest == nullptr ? nullptr : made_by(rest->inputs[0], Op::sub, 2);
  NormMatch m;
  TensorId centred = 0;
  if (without_mean == nullptr || !root(r, m, centred)) return std::nullopt;
  const TensorId h = without_mean->inputs[0];
  const Operator* along = made_by(rest->inputs[1], Op::mul, 2);
  if (along == nullptr || !is_mean(without_mean->inputs[1], h, m.groups)) return std::nullopt;
  m.unit = along->inputs[0];
  if (factor(m.unit, centred) != r) return std::nullopt;
  const auto product = mean(along->inputs[1]);
  if (!product || product->groups != m.groups || factor(product->of, h) != m.unit || !scaled(h, m)) return std::nullopt;
  const bool same = n_[m.x].shape == n_[op.output].shape && n_[m.g].shape == n_[m.x].shape;
  return same ? std::optional(m) : std::nullopt;
}

// The gradient of a bias ahead is the sum of the input's
std::optional<NormGradient::Of> NormMatcher::vector_of(const Operator& op, const NormMatch& m, TensorId input) const {
  const auto* r = std::get_if<operators::Reduce>(&op.kind);
  if (r == nullptr || r->op != ReduceOp::sum || r->axes != std::vector<int>{0, 2, 3} || r->keep) return std::nullopt;
  const TensorId of = op.inputs[0];
  if (of == input) return NormGradient::Of::sum;
  if (of == m.g) return NormGradient::Of::shift;
  return factor(of, m.g) == m.unit ? std::optional(NormGradient::Of::scale) : std::nullopt;
}

bool has_numbers(const Network& n, const NormMatch& m, std::int64_t most_channels) {
  const Shape& s = n[m.x].shape;
  const bool known = std::ranges::all_of(s, [](const Dim& d) { return d.known() && d.value() > 0; });
  if (!known || s[1].value() % m.groups != 0 || s[1].value() / m.groups > most_channels) return false;
  return n[m.x].dtype == DType::f32 && n[m.g].dtype == DType::f32 && !n[m.x].is_constant() && !n[m.g].is_constant() &&
         (!m.scale || n[*m.scale].dtype == DType::f32);
}

Operator written(const NormMatch& m, const Operator& of) {
  Operator op{NormGradient{NormGradient::Of::input, m.groups, m.eps}, of.name, {m.x, m.g}, of.output};
  if (m.scale) op.inputs.push_back(*m.scale);
  return op;
}

}  // namespace

Network with_norm_gradients(const Network& network, std::int64_t most_channels) {
  const TensorUses uses(network);
  const NormMatcher matcher(network, uses);
  std::vector<std::pair<NormMatch, TensorId>> found;  // with the gradients of inputs that came so far
  Network out = network;
  for (Operator& op : out.operators) {
    if (uses.producer(op.output) == nullptr) continue;
    if (const auto m = matcher.of_input(op); m && has_numbers(network, *m, most_channels)) {
      found.emplace_back(*m, op.output);
      op = written(*m, op);
      continue;
    }
    for (const auto& [m, input] : found) {
      const auto of = matcher.vector_of(op, m, input);
      if (!of) continue;
      op.kind = NormGradient{*of, m.groups, m.eps};
      op.inputs = {input};
      break;
    }
  }
  if (found.empty()) return network;
  const TensorUses now(out);
  std::erase_if(out.operators, [&](const Operator& op) { return now.producer(op.output) != &op; });
  return out;
}

}  // namespace unisono::network
