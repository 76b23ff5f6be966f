/// Convolutions by constant filters as others that cost less:
///
/// * Taps that meet padding alone, whatever the output, are left out: of 3x3 taps on an image of one pixel one counts.
/// * A transposed convolution of volumes is a convolution that makes all outputs between two inputs as channels, which
///   then become voxels. A tensor core multiplies it; the other has a thread an output.

#include <algorithm>
#include <array>
#include <string_view>

#include "network/dim.hpp"
#include "network/regions.hpp"
#include "network/shape_limits.hpp"

namespace unisono::network {

namespace {

using FilterValues = std::vector<float>;

constexpr std::int64_t most_outputs = 1 << 15;  // channels of a convolution between inputs

// An axis of a convolution
struct Windows {
  std::int64_t extent, outputs, stride, dilation, before, after, taps;

  bool reads_anything(std::int64_t tap) const {
    for (std::int64_t p = 0; p < outputs; ++p) {
      const std::int64_t at = p * stride + tap * dilation - before;
      if (at >= extent) return false;
      if (at >= 0) return true;
    }
    return false;
  }
};

// The taps [first, first + taps) and the padding that is left
struct Kept {
  std::int64_t first = 0, taps = 0, before = 0, after = 0;
};
Kept kept_taps(const Windows& w) {
  Kept k{.taps = w.taps, .before = w.before, .after = w.after};
  while (k.taps > 1 && k.before >= w.dilation && !w.reads_anything(k.first))
    ++k.first, --k.taps, k.before -= w.dilation;
  while (k.taps > 1 && k.after >= w.dilation && !w.reads_anything(k.first + k.taps - 1))
    --k.taps, k.after -= w.dilation;
  return k;
}

bool is_extent(const Dim& d) { return d.known() && d.value() > 0; }
bool has_extents(const Shape& s) { return std::all_of(s.begin() + 2, s.end(), is_extent); }

std::int64_t elements_from(const Shape& s, std::size_t first) {
  std::int64_t n = 1;
  for (std::size_t i = first; i < s.size(); ++i) n *= s[i].value();
  return n;
}

// Output s·i + r of an axis is the sum of x[i − m] times tap s·m + r + before, over all m for which there is one; of
// all r together m begins at −(s − 1 + before) ÷ s. So all r are outputs of one window.
struct Between {
  std::int64_t taps, before, after, outputs;
};
std::optional<Between> between(std::int64_t extent, std::int64_t outputs, std::int64_t stride, std::int64_t before,
                               std::int64_t taps) {
  if (before >= taps) return std::nullopt;
  const std::int64_t last = (taps - 1 - before) / stride, first = -((stride - 1 + before) / stride);
  Between b{.taps = last - first + 1, .before = last, .after = 0, .outputs = (outputs + stride - 1) / stride};
  b.after = b.outputs - extent - b.before + b.taps - 1;
  if (b.after < 0) return std::nullopt;
  return b;
}

using BetweenAxes = std::array<Between, 3>;

class Simplifier {
 public:
  Simplifier(const Network& network, bool volumes) : in_(network), out_(network), volumes_(volumes) {
    out_.operators.clear();
  }
  Network run() {
    for (const Operator& op : in_.operators)
      if (!rewrite(op)) out_.operators.push_back(op);
    return std::move(out_);
  }

 private:
  bool rewrite(const Operator& op) {
    const bool image = std::holds_alternative<operators::Conv2d>(op.kind);
    const auto* volume = std::get_if<operators::Conv3d>(&op.kind);
    if (!image && volume == nullptr) return false;
    if (!in_[op.inputs[1]].constant || !has_extents(in_[op.inputs[0]].shape) || !has_extents(in_[op.output].shape))
      return false;
    if (image || !volume->transposed) return leave_out_taps(op);
    return volumes_ && convolve_between_inputs(op, *volume);
  }

  bool leave_out_taps(const Operator& op);
  bool convolve_between_inputs(const Operator& op, const operators::Conv3d& c);
  void become_voxels(const Operator& op, const operators::Conv3d& c, const BetweenAxes& axes, TensorId from);

  TensorId add(const NetworkTensor& like, std::string_view suffix, Shape shape, FilterValues values = {}) {
    NetworkTensor t{like.name + std::string(suffix), like.dtype, std::move(shape), nullptr, nullptr, like.keeps_f32};
    if (!values.empty()) t.constant = std::make_shared<const FilterValues>(std::move(values));
    out_.tensors.push_back(std::move(t));
    return static_cast<TensorId>(out_.tensors.size() - 1);
  }
  TensorId apply(OperatorKind kind, TensorId x, TensorId to) {
    out_.operators.push_back({std::move(kind), out_[to].name, {x}, to});
    return to;
  }
  TensorId filter_of(TensorId id, const std::vector<Kept>& kept);

  const Network& in_;
  Network out_;
  bool volumes_;
};

// The filter (K,C,taps…) without the other taps
TensorId Simplifier::filter_of(TensorId id, const std::vector<Kept>& kept) {
  const NetworkTensor like = in_[id];
  Shape shape{like.shape[0], like.shape[1]};
  for (const Kept& k : kept) shape.emplace_back(k.taps);
  FilterValues y;
  y.reserve(static_cast<std::size_t>(elements_from(shape, 0)));
  const std::int64_t taps = elements_from(like.shape, 2), kept_taps = elements_from(shape, 2);
  for (std::int64_t filter = 0; filter < like.shape[0].value() * like.shape[1].value(); ++filter) {
    for (std::int64_t tap = 0; tap < kept_taps; ++tap) {
      std::int64_t rest = tap, at = 0, step = 1;
      for (std::size_t i = kept.size(); i-- > 0; step *= like.shape[i + 2].value()) {
        at += (kept[i].first + rest % kept[i].taps) * step;
        rest /= kept[i].taps;
      }
      y.push_back((*like.constant)[static_cast<std::size_t>(filter * taps + at)]);
    }
  }
  return add(like, "_taps", std::move(shape), std::move(y));
}

bool Simplifier::leave_out_taps(const Operator& op) {
  Operator with = op;
  const Shape &x = in_[op.inputs[0]].shape, &w = in_[op.inputs[1]].shape, &y = in_[op.output].shape;
  const auto windows = [&](std::size_t i, std::int64_t stride, std::int64_t dilation, std::int64_t before,
                           std::int64_t after) {
    return Windows{x[i].value(), y[i].value(), stride, dilation, before, after, w[i].value()};
  };
  std::vector<Kept> kept;
  if (auto* c = std::get_if<operators::Conv2d>(&with.kind)) {
    kept = {kept_taps(windows(2, c->stride.h, c->dilation.h, c->pad.top, c->pad.bottom)),
            kept_taps(windows(3, c->stride.w, c->dilation.w, c->pad.left, c->pad.right))};
    c->pad = {kept[0].before, kept[1].before, kept[0].after, kept[1].after};
  } else {
    auto& v = std::get<operators::Conv3d>(with.kind);
    for (std::size_t i = 0; i < 3; ++i) {
      kept.push_back(kept_taps(windows(i + 2, v.stride[i], v.dilation[i], v.before[i], v.after[i])));
      v.before[i] = kept[i].before, v.after[i] = kept[i].after;
    }
  }
  bool fewer = false;
  for (std::size_t i = 0; i < kept.size(); ++i) fewer = fewer || kept[i].taps < w[i + 2].value();
  if (!fewer) return false;
  with.inputs[1] = filter_of(op.inputs[1], kept);
  out_.operators.push_back(std::move(with));
  return true;
}

std::optional<BetweenAxes> axes_between(const operators::Conv3d& c, const Shape& x, const Shape& w, const Shape& y) {
  BetweenAxes axes{};
  for (std::size_t i = 0; i < 3; ++i) {
    const auto axis = between(x[i + 2].value(), y[i + 2].value(), c.stride[i], c.before[i], w[i + 2].value());
    if (!axis) return std::nullopt;
    axes[i] = *axis;
  }
  return axes;
}

// (C,K,taps…) as (places·K,C,taps of the windows…): a place is an output between two inputs
FilterValues filter_between(const FilterValues& from, const Shape& w, const operators::Conv3d& c,
                            const BetweenAxes& axes) {
  const std::int64_t channels = w[0].value(), filters = w[1].value(), taps = elements_from(w, 2);
  const std::int64_t t1 = axes[1].taps, t2 = axes[2].taps, window = axes[0].taps * t1 * t2;
  // What tap t of the window of axis i is for output r: a tap of the filter, or none
  const auto tap = [&](std::size_t i, std::int64_t r, std::int64_t t) {
    const std::int64_t at = c.stride[i] * (axes[i].before - t) + r + c.before[i];
    return at < w[i + 2].value() ? at : -1;
  };
  const std::int64_t places = c.stride[0] * c.stride[1] * c.stride[2];
  FilterValues to(static_cast<std::size_t>(places * filters * channels * window), 0.f);
  for (std::int64_t place = 0; place < places; ++place)
    for (std::int64_t t = 0; t < window; ++t) {
      const std::int64_t d = tap(0, place / (c.stride[1] * c.stride[2]), t / (t1 * t2)),
                         h = tap(1, place / c.stride[2] % c.stride[1], t / t2 % t1),
                         v = tap(2, place % c.stride[2], t % t2);
      if (d < 0 || h < 0 || v < 0) continue;
      const std::int64_t at = (d * w[3].value() + h) * w[4].value() + v;
      for (std::int64_t k = 0; k < filters; ++k)
        for (std::int64_t channel = 0; channel < channels; ++channel)
          to[static_cast<std::size_t>(((place * filters + k) * channels + channel) * window + t)] =
              from[static_cast<std::size_t>((channel * filters + k) * taps + at)];
    }
  return to;
}

Shape shape_of(std::initializer_list<std::int64_t> extents) { return {extents.begin(), extents.end()}; }

bool Simplifier::convolve_between_inputs(const Operator& op, const operators::Conv3d& c) {
  const NetworkTensor filter = in_[op.inputs[1]];
  const Shape &x = in_[op.inputs[0]].shape, &y = in_[op.output].shape, &w = filter.shape;
  const std::int64_t places = c.stride[0] * c.stride[1] * c.stride[2], filters = w[1].value();
  const bool has_bias = op.inputs.size() == 3;
  if (c.groups != 1 || c.dilation != std::vector<std::int64_t>(3, 1) || !x[0].known() || in_[op.output].keeps_f32 ||
      places * filters > most_outputs || (has_bias && !in_[op.inputs[2]].constant))
    return false;
  const auto axes = axes_between(c, x, w, y);
  if (!axes) return false;
  operators::Conv3d conv{
      .stride = {1, 1, 1}, .dilation = {1, 1, 1}, .before = {}, .after = {}, .output_pad = {0, 0, 0}};
  Shape of_filter{Dim(places * filters), w[0]}, of_outputs{x[0], Dim(places * filters)};
  for (const Between& b : *axes) {
    conv.before.push_back(b.before), conv.after.push_back(b.after);
    of_filter.emplace_back(b.taps), of_outputs.emplace_back(b.outputs);
  }
  std::vector<TensorId> inputs{op.inputs[0],
                               add(filter, "_between", of_filter, filter_between(*filter.constant, w, c, *axes))};
  if (has_bias) {
    const NetworkTensor bias = in_[op.inputs[2]];
    FilterValues repeated;
    for (std::int64_t i = 0; i < places; ++i)
      repeated.insert(repeated.end(), bias.constant->begin(), bias.constant->end());
    inputs.push_back(add(bias, "_between", {Dim(places * filters)}, std::move(repeated)));
  }
  const TensorId made = add(NetworkTensor(in_[op.output]), "_between", of_outputs);
  out_.operators.push_back({std::move(conv), op.name, std::move(inputs), made});
  become_voxels(op, c, *axes, made);
  return true;
}

// The channels (places·K) of each voxel as voxels
void Simplifier::become_voxels(const Operator& op, const operators::Conv3d& c, const BetweenAxes& axes, TensorId from) {
  const NetworkTensor like = in_[op.output];
  const Shape& y = like.shape;
  const std::int64_t n = y[0].value(), k = y[1].value(), d = axes[0].outputs, h = axes[1].outputs, w = axes[2].outputs;
  const std::int64_t s0 = c.stride[0], s1 = c.stride[1], s2 = c.stride[2];
  const TensorId apart = apply(operators::Reshape{{n, s0, s1, s2, k, d, h, w}}, from,
                               add(like, "_apart", shape_of({n, s0, s1, s2, k, d, h, w})));
  const TensorId turned = apply(operators::Transpose{{0, 4, 5, 1, 6, 2, 7, 3}}, apart,
                                add(like, "_turned", shape_of({n, k, d, s0, h, s1, w, s2})));
  const Shape whole = shape_of({n, k, d * s0, h * s1, w * s2});
  const bool is_all = whole == y;
  const TensorId joined = apply(operators::Reshape{{n, k, d * s0, h * s1, w * s2}}, turned,
                                is_all ? op.output : add(like, "_whole", whole));
  if (is_all) return;
  operators::Slice slice{.starts = {0, 0, 0}, .ends = {}, .steps = {1, 1, 1}, .axes = {2, 3, 4}};
  for (std::size_t i = 2; i < 5; ++i) slice.ends.push_back(y[i].value());
  apply(std::move(slice), joined, op.output);
}

}  // namespace

Network simpler_convolutions(const Network& network, bool volumes) {
  const auto may_change = [](const Operator& op) {
    return std::holds_alternative<operators::Conv2d>(op.kind) || std::holds_alternative<operators::Conv3d>(op.kind);
  };
  return std::ranges::any_of(network.operators, may_change) ? Simplifier(network, volumes).run() : network;
}

}  // namespace unisono::network
