/// A division by the root of the sum of squares over channels, x / max(√Σx², ε), as PyTorch writes F.normalize, is an
/// RMS norm of the channels of each pixel, 1/√C of it. Factors a channel that follow are the norm's scale.

#include <algorithm>
#include <cmath>

#include "network/dim.hpp"
#include "network/regions.hpp"

namespace unisono::network {

namespace {

constexpr double largest_bound = 1e-6;  // ε: the norm adds its square to the sum, no element of 16 bits shows which

class ChannelNorms {
 public:
  explicit ChannelNorms(const Network& network)
      : in_(network), out_(network), maker_(network.tensors.size()), users_(network.tensors.size()) {
    out_.operators.clear();
    for (std::size_t i = 0; i < in_.operators.size(); ++i) {
      maker_[in_.operators[i].output] = i;
      for (const TensorId id : in_.operators[i].inputs) users_[id].push_back(i);
    }
    for (const TensorId id : in_.outputs) users_[id].push_back(in_.operators.size());
  }

  Network run() {
    std::vector<bool> taken(in_.operators.size(), false);  // as factors of a norm
    for (std::size_t i = 0; i < in_.operators.size(); ++i) {
      const Operator& op = in_.operators[i];
      const auto norm = taken[i] ? std::nullopt : norm_of(op);
      if (norm) {
        write(op, *norm, taken);
      } else if (!taken[i]) {
        out_.operators.push_back(op);
      }
    }
    return std::move(out_);
  }

 private:
  struct Norm {
    TensorId x;
    double bound;
  };

  const Operator* maker(TensorId id) const { return maker_[id] ? &in_.operators[*maker_[id]] : nullptr; }
  const Operator* elementwise(TensorId id, Op op) const {
    const Operator* found = maker(id);
    const auto* e = found == nullptr ? nullptr : std::get_if<operators::Elementwise>(&found->kind);
    return e != nullptr && e->op == op ? found : nullptr;
  }
  std::optional<Norm> norm_of(const Operator& op) const;
  std::optional<std::vector<float>> factors(TensorId id, std::size_t rank, std::int64_t channels) const;
  void write(const Operator& op, const Norm& norm, std::vector<bool>& taken);
  TensorId add(const NetworkTensor& like, std::string_view suffix, Shape shape, std::vector<float> values = {}) {
    NetworkTensor t{like.name + std::string(suffix), DType::f32, std::move(shape), nullptr, nullptr, like.keeps_f32};
    if (!values.empty()) t.constant = std::make_shared<const std::vector<float>>(std::move(values));
    out_.tensors.push_back(std::move(t));
    return static_cast<TensorId>(out_.tensors.size() - 1);
  }

  const Network& in_;
  Network out_;
  std::vector<std::optional<std::size_t>> maker_;
  std::vector<std::vector<std::size_t>> users_;
};

bool repeats_channels(const Operator& op, std::size_t rank) {
  if (std::holds_alternative<operators::Expand>(op.kind)) return true;
  const auto* tile = std::get_if<operators::Tile>(&op.kind);
  if (tile == nullptr || tile->repeats.size() != rank) return false;
  for (std::size_t i = 0; i < rank; ++i)
    if (i != 1 && tile->repeats[i] != 1) return false;
  return true;
}

// The division of x, whose extents but the first are numbers
std::optional<ChannelNorms::Norm> ChannelNorms::norm_of(const Operator& op) const {
  const auto* division = std::get_if<operators::Elementwise>(&op.kind);
  const Shape& s = in_[op.output].shape;
  const auto is_number = [](const Dim& d) { return d.known() && d.value() > 0; };
  if (division == nullptr || division->op != Op::div || (s.size() != 4 && s.size() != 5) ||
      !std::all_of(s.begin() + 1, s.end(), is_number) || in_[op.output].keeps_f32 || in_[op.inputs[0]].shape != s)
    return std::nullopt;
  TensorId below = op.inputs[1];
  if (const Operator* repeated = maker(below); repeated != nullptr && repeats_channels(*repeated, s.size()))
    below = repeated->inputs[0];
  const Operator* bounded = elementwise(below, Op::clamp);
  if (bounded == nullptr) return std::nullopt;
  const Attributes& range = std::get<operators::Elementwise>(bounded->kind).attr;
  // ReduceL2, or what it is made of
  const Operator* root = elementwise(bounded->inputs[0], Op::sqrt);
  const Operator* sum = maker(root == nullptr ? bounded->inputs[0] : root->inputs[0]);
  const auto* reduced = sum == nullptr ? nullptr : std::get_if<operators::Reduce>(&sum->kind);
  if (reduced == nullptr || reduced->op != (root == nullptr ? ReduceOp::l2 : ReduceOp::sum) ||
      reduced->axes != std::vector{1} || !reduced->keep)
    return std::nullopt;
  const Operator* square = root == nullptr ? nullptr : elementwise(sum->inputs[0], Op::square);
  if (root != nullptr && square == nullptr) return std::nullopt;
  if ((root == nullptr ? sum : square)->inputs[0] != op.inputs[0]) return std::nullopt;
  if (!(range.lower > 0 && range.lower <= largest_bound) || range.upper < 1e30) return std::nullopt;
  return Norm{op.inputs[0], range.lower};
}

// A constant that is one number, or one a channel
std::optional<std::vector<float>> ChannelNorms::factors(TensorId id, std::size_t rank, std::int64_t channels) const {
  const auto& constant = in_[id].constant;
  const Shape& s = in_[id].shape;
  if (!constant || constant->empty() || s.size() > rank) return std::nullopt;
  if (constant->size() == 1) return std::vector<float>(static_cast<std::size_t>(channels), constant->front());
  const std::size_t missing = rank - s.size();
  for (std::size_t i = 0; i < s.size(); ++i)
    if (!is_one(s[i]) && (i + missing != 1 || !(s[i] == Dim(channels)))) return std::nullopt;
  return *constant;
}

void ChannelNorms::write(const Operator& op, const Norm& norm, std::vector<bool>& taken) {
  const Shape s = in_[op.output].shape;
  const std::int64_t channels = s[1].value();
  std::vector<float> scale(static_cast<std::size_t>(channels), 1);
  double factor = 1 / std::sqrt(static_cast<double>(channels));
  TensorId result = op.output;
  while (users_[result].size() == 1 && users_[result][0] < in_.operators.size()) {
    const Operator& next = in_.operators[users_[result][0]];
    const auto* e = std::get_if<operators::Elementwise>(&next.kind);
    if (e == nullptr || e->op != Op::mul || in_[next.output].shape != s || next.inputs[0] == next.inputs[1]) break;
    const auto more = factors(next.inputs[next.inputs[0] == result ? 1 : 0], s.size(), channels);
    if (!more) break;
    for (std::size_t i = 0; i < scale.size(); ++i) scale[i] *= (*more)[i];
    taken[users_[result][0]] = true, result = next.output;
  }
  for (float& v : scale) v = static_cast<float>(static_cast<double>(v) * factor);
  const NetworkTensor like = in_[op.output];
  const operators::Normalisation kind{
      .op = Op::rms_norm, .eps = norm.bound * norm.bound / static_cast<double>(channels), .has_scale = true};
  const TensorId gamma = add(like, "_scale", {Dim(channels)}, std::move(scale));
  if (s.size() == 4) return out_.operators.push_back({kind, op.name, {norm.x, gamma}, result});
  const Shape image{s[0], s[1], Dim(s[2].value() * s[3].value()), s[4]};
  const TensorId planes = add(like, "_planes", image), normed = add(like, "_normed", image);
  const auto shaped = [](const Shape& to) {
    operators::Reshape r{{0}};
    for (std::size_t i = 1; i < to.size(); ++i) r.shape.push_back(to[i].value());
    return r;
  };
  out_.operators.push_back({shaped(image), op.name, {norm.x}, planes});
  out_.operators.push_back({kind, op.name, {planes, gamma}, normed});
  out_.operators.push_back({shaped(s), op.name, {normed}, result});
}

}  // namespace

Network with_channel_norms(const Network& network) {
  const auto divides = [](const Operator& op) {
    const auto* e = std::get_if<operators::Elementwise>(&op.kind);
    return e != nullptr && e->op == Op::div;
  };
  return std::ranges::any_of(network.operators, divides) ? ChannelNorms(network).run() : network;
}

}  // namespace unisono::network
