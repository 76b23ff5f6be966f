/// Shape inference, one function an operator.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "ir/infer.hpp"
#include "ir/op_table.hpp"
#include "network/attention_extents.hpp"
#include "network/dim.hpp"
#include "network/empty_tensors.hpp"
#include "network/infer_tensors.hpp"
#include "network/reshaped.hpp"
#include "network/shape_limits.hpp"
#include "unisono/error.hpp"
#include "unisono/network.hpp"

namespace unisono {

namespace network {

namespace {

// One inference: the inputs, and how errors name the node.
class Inference {
 public:
  Inference(std::span<const NetworkTensor* const> inputs, std::string where)
      : inputs_(inputs), where_(std::move(where)) {}

  Shape operator()(const operators::Conv2d& c) const { return (convolution(c, false), convolved(c, shape(0))); }
  Shape operator()(const operators::UpsampledConv2d& c) const {
    convolution(c, false);
    const Shape& x = shape(0);
    return convolved(c, {x[0], x[1], affine(x[2], 2, 0), affine(x[3], 2, 0)});
  }
  Shape operator()(const operators::ConvTranspose2d& c) const;
  Shape operator()(const operators::Gemm& g) const;
  Shape operator()(const operators::Elementwise& e) const;
  Shape operator()(const operators::Normalisation& n) const;
  Shape operator()(const operators::BatchNorm& b) const;
  Shape operator()(const operators::Softmax&) const;
  Shape operator()(const operators::Pool2d& p) const;
  Shape operator()(const operators::GlobalAveragePool&) const;
  Shape operator()(const operators::Resize& r) const;
  Shape operator()(const operators::Concat& c) const;
  Shape operator()(const operators::Pad& p) const;
  Shape operator()(const operators::Reshape& r) const { return (count(1, 1), reshaped(shape(0), r, where_)); }
  Shape operator()(const operators::PixelReshape& r) const {
    return (count(1, 1), reshaped(shape(0), {.shape = r.shape, .literal = true}, where_));
  }
  Shape operator()(const operators::Flatten& f) const;
  Shape operator()(const operators::Transpose& t) const;
  Shape operator()(const operators::Expand&) const { return (count(2, 2), broadcast(shape(0), shape(1))); }
  Shape operator()(const operators::Attention& a) const {
    std::vector<Shape> shapes;
    for (const NetworkTensor* t : inputs_) shapes.push_back(t->shape);
    return result_shape(a, shapes);
  }
  Shape operator()(const operators::Identity&) const { return (count(1, 1), shape(0)); }
  // operators on tensors of any type
  Shape operator()(const auto& k) const { return infer_tensor_shape(k, OperatorInputs{inputs_, where_}); }

 private:
  template <class... T>
  [[noreturn]] void fail(fmt::format_string<T...> format, T&&... args) const {
    throw UserError(fmt::format("{}: {}", where_, fmt::format(format, std::forward<T>(args)...)));
  }
  const Shape& shape(std::size_t i) const { return inputs_[i]->shape; }
  void count(std::size_t least, std::size_t most) const;
  void image(std::size_t i) const;
  void positive(std::string_view what, const Pair& p) const;
  void not_negative(std::string_view what, const Margins& m) const;
  void vector_of(std::string_view what, std::size_t i, const Dim& channels) const;
  void groups(const Dim& c, const Dim& k, std::int64_t g) const;
  void convolution(const ConvAttributes& c, bool transposed) const;
  Shape convolved(const ConvAttributes& c, const Shape& x) const;
  Dim channels(const Shape& x) const { return x.size() == 4 ? x[1] : x.empty() ? Dim(1) : x.back(); }
  Shape broadcast(const Shape& x, const Shape& y) const { return broadcast_shapes(x, y, where_); }
  Dim place(const Dim& x, std::int64_t pad, std::int64_t span, std::int64_t stride, bool ceil) const;

  std::span<const NetworkTensor* const> inputs_;
  std::string where_;
};

void Inference::count(std::size_t least, std::size_t most) const {
  if (inputs_.size() >= least && inputs_.size() <= most) return;
  if (least == most) fail("was given {} inputs; expected {}", inputs_.size(), least);
  fail("was given {} inputs; expected {} to {}", inputs_.size(), least, most);
}

void Inference::image(std::size_t i) const {
  if (shape(i).size() != 4)
    fail("input '{}' has shape {}; expected 4 extents (N,C,H,W)", inputs_[i]->name, to_string(shape(i)));
}

void Inference::positive(std::string_view what, const Pair& p) const {
  if (p.h < 1 || p.w < 1 || p.h > largest_step || p.w > largest_step)
    fail("{} is {}x{}; expected 1 to 2^24", what, p.h, p.w);
}

void Inference::not_negative(std::string_view what, const Margins& m) const {
  for (const auto v : {m.top, m.left, m.bottom, m.right})
    if (v < 0 || v > largest_extent) fail("{} is {}; expected 0 to 2^31", what, v);
}

void Inference::vector_of(std::string_view what, std::size_t i, const Dim& channels) const {
  const Shape& s = shape(i);
  if (s.size() != 1 || !may_equal(s[0], channels))
    fail("{} '{}' has shape {}; expected ({})", what, inputs_[i]->name, to_string(s), to_string(channels));
}

void Inference::groups(const Dim& c, const Dim& k, std::int64_t g) const {
  if ((c.known() && c.value() % g != 0) || (k.known() && k.value() % g != 0))
    fail("{} input and {} output channels with groups={}; both must be multiples of groups", to_string(c), to_string(k),
         g);
}

Dim Inference::place(const Dim& x, std::int64_t pad, std::int64_t span, std::int64_t stride, bool ceil) const {
  if (const auto d = window_count(x, pad, span, stride, ceil)) return *d;
  fail("a window of {} pixels does not fit an extent of {} with {} of padding", span, to_string(x), pad);
}

// What all convolutions expect of their operands and windows
void Inference::convolution(const ConvAttributes& c, bool transposed) const {
  count(2, 3);
  image(0);
  image(1);
  check_attributes(c, transposed, where_);
  const Shape& w = shape(1);
  if (!w[2].known() || !w[3].known())
    fail("filter '{}' has shape {}; its extents must be numbers", inputs_[1]->name, to_string(w));
}

// The result for an image of shape x
Shape Inference::convolved(const ConvAttributes& c, const Shape& x) const {
  const Shape& w = shape(1);
  groups(x[1], w[0], c.groups);
  if (!may_equal(x[1], affine(w[1], c.groups, 0)))
    fail("input '{}' {} has {} channels, and filter '{}' {} takes {} (groups={})", inputs_[0]->name, to_string(x),
         to_string(x[1]), inputs_[1]->name, to_string(w), to_string(affine(w[1], c.groups, 0)), c.groups);
  if (inputs_.size() == 3) vector_of("bias", 2, w[0]);
  return {x[0], w[0], place(x[2], c.pad.top + c.pad.bottom, c.dilation.h * (w[2].value() - 1) + 1, c.stride.h, false),
          place(x[3], c.pad.left + c.pad.right, c.dilation.w * (w[3].value() - 1) + 1, c.stride.w, false)};
}

Shape Inference::operator()(const operators::ConvTranspose2d& c) const {
  convolution(c, true);
  const Shape &x = shape(0), &w = shape(1);
  groups(x[1], x[1], c.groups);
  const Dim k = affine(w[1], c.groups, 0);
  if (!may_equal(x[1], w[0]))
    fail("input '{}' {} has {} channels, and filter '{}' {} takes {}", inputs_[0]->name, to_string(x), to_string(x[1]),
         inputs_[1]->name, to_string(w), to_string(w[0]));
  if (inputs_.size() == 3) vector_of("bias", 2, k);
  const auto extent = [&](const Dim& in, std::int64_t stride, std::int64_t pad, std::int64_t span,
                          std::int64_t output_pad) {
    Dim d = affine(in, stride, span + output_pad - pad - stride);
    if (d.known() && d.value() < 1) fail("the output would have {} pixels; pad {} is too large", d.value(), pad);
    return d;
  };
  return {x[0], k,
          extent(x[2], c.stride.h, c.pad.top + c.pad.bottom, c.dilation.h * (w[2].value() - 1) + 1, c.output_pad.h),
          extent(x[3], c.stride.w, c.pad.left + c.pad.right, c.dilation.w * (w[3].value() - 1) + 1, c.output_pad.w)};
}

Shape Inference::operator()(const operators::Gemm& g) const {
  count(2, 3);
  const Shape &a = shape(0), &b = shape(1);
  if (a.size() < 2 || a.size() > 3 || (g.transpose_a && a.size() != 2))
    fail("left operand '{}' has shape {}; expected {}", inputs_[0]->name, to_string(a),
         g.transpose_a ? "(K,M)" : "(M,K) or (B,M,K); reshape it");
  if (b.size() != 2)
    fail("right operand '{}' has shape {}; expected {}", inputs_[1]->name, to_string(b),
         g.transpose_b ? "(N,K)" : "(K,N)");
  const Dim& depth = g.transpose_a ? a[0] : a.back();
  const Dim& depth_b = g.transpose_b ? b[1] : b[0];
  if (!may_equal(depth, depth_b))
    fail("left operand '{}' {} has depth {}, and right operand '{}' {} has {}", inputs_[0]->name, to_string(a),
         to_string(depth), inputs_[1]->name, to_string(b), to_string(depth_b));
  Shape r = g.transpose_a ? Shape{a[1], a[0]} : a;
  r.back() = g.transpose_b ? b[0] : b[1];
  if (inputs_.size() == 3) vector_of("bias", 2, r.back());
  return r;
}

Shape Inference::operator()(const operators::Elementwise& e) const {
  const auto& row = ir::info(e.op);
  const bool numeric = row.op_class == ir::OpClass::binary || row.op_class == ir::OpClass::unary || e.op == Op::fma;
  if (!numeric || e.op == Op::cast || e.op == Op::one_hot)
    fail("{} is not an elementwise operator on float32 tensors", row.name);
  count(static_cast<std::size_t>(row.arity), static_cast<std::size_t>(row.arity));
  const Node node = [] {
    Node x;
    x.op = Op::acc;
    x.axes = axes::mn;
    return x;
  }();
  const std::vector<const Node*> types(inputs_.size(), &node);
  try {
    (void)ir::infer(e.op, types, e.attr, {});  // checks the attributes
  } catch (const UserError& error) {
    fail("{}", error.what());
  }
  Shape r = shape(0);
  for (std::size_t i = 1; i < inputs_.size(); ++i) r = broadcast(r, shape(i));
  return r;
}

Shape Inference::operator()(const operators::Normalisation& n) const {
  if (!ir::is_normalisation(n.op) || n.op == Op::batch_norm) fail("{} is not supported here", to_string(n.op));
  const std::size_t expected = 1 + (n.has_scale ? 1 : 0) + (n.has_shift ? 1 : 0);
  count(expected, expected);
  const bool spatial = n.op == Op::group_norm || n.op == Op::instance_norm;
  if (spatial) image(0);
  const Shape& x = shape(0);
  if (x.empty()) fail("input '{}' is a scalar", inputs_[0]->name);
  const Dim c = channels(x);
  if (n.groups < 1 || (n.op != Op::group_norm && n.groups != 1)) fail("groups is {}", n.groups);
  if (c.known() && c.value() % n.groups != 0) fail("{} channels do not fall into {} equal groups", c.value(), n.groups);
  if (!(n.eps >= 0) || !std::isfinite(n.eps)) fail("eps is {}; expected a finite number of at least 0", n.eps);
  if (n.op == Op::rms_norm && n.has_shift) fail("rms_norm takes no shift; add it after");
  for (std::size_t i = 1; i < inputs_.size(); ++i) vector_of(i == 1 && n.has_scale ? "scale" : "shift", i, c);
  return x;
}

Shape Inference::operator()(const operators::BatchNorm& b) const {
  count(5, 5);
  const Shape& x = shape(0);
  if (x.size() < 2) fail("input '{}' has shape {}; expected (N,C,…)", inputs_[0]->name, to_string(x));
  if (!(b.eps >= 0) || !std::isfinite(b.eps)) fail("eps is {}; expected a finite number of at least 0", b.eps);
  constexpr std::array names{"scale", "shift", "mean", "variance"};
  for (std::size_t i = 1; i < 5; ++i) vector_of(names[i - 1], i, x[1]);
  return x;
}

Shape Inference::operator()(const operators::Softmax&) const {
  count(1, 1);
  if (shape(0).empty()) fail("input '{}' is a scalar", inputs_[0]->name);
  return shape(0);
}

Shape Inference::operator()(const operators::Pool2d& p) const {
  count(1, 1);
  image(0);
  positive("kernel", p.kernel);
  positive("stride", p.stride);
  positive("dilation", p.dilation);
  not_negative("pad", p.pad);
  const Pair span{p.dilation.h * (p.kernel.h - 1) + 1, p.dilation.w * (p.kernel.w - 1) + 1};
  if (p.pad.top >= span.h || p.pad.bottom >= span.h || p.pad.left >= span.w || p.pad.right >= span.w)
    fail("pad {},{},{},{} is not below the window of {}x{}: a window could lie wholly in it", p.pad.top, p.pad.left,
         p.pad.bottom, p.pad.right, span.h, span.w);
  const Shape& x = shape(0);
  const auto extent = [&](const Dim& in, std::int64_t before, std::int64_t after, std::int64_t span_,
                          std::int64_t stride) {
    Dim d = place(in, before + after, span_, stride, p.ceil_mode);
    // the last window must start inside the image or its left padding
    if (p.ceil_mode && d.known() && in.known() && (d.value() - 1) * stride >= in.value() + before)
      d = Dim(d.value() - 1);
    return d;
  };
  return {x[0], x[1], extent(x[2], p.pad.top, p.pad.bottom, span.h, p.stride.h),
          extent(x[3], p.pad.left, p.pad.right, span.w, p.stride.w)};
}

Shape Inference::operator()(const operators::GlobalAveragePool&) const {
  count(1, 1);
  image(0);
  return {shape(0)[0], shape(0)[1], 1, 1};
}

Shape Inference::operator()(const operators::Resize& r) const {
  const bool like = r.height == -1 || r.width == -1;
  count(like ? 2 : 1, like ? 2 : 1);
  image(0);
  if (r.mode == ResizeMode::cubic || r.coordinates > ResizeCoordinates::align_corners)
    fail("has a mode or coordinates that only resample has; use operators::Resample");
  const Shape& x = shape(0);
  const auto extent = [&](std::size_t axis, std::int64_t size, double scale) {
    if (size == -1) {
      if (shape(1).size() <= axis) fail("input '{}' {} has no axis {}", inputs_[1]->name, to_string(shape(1)), axis);
      return shape(1)[axis];
    }
    if (size != 0) {
      if (size < 1 || size > largest_extent) fail("size is {}; expected 1 to 2^31", size);
      return Dim(size);
    }
    if (!(scale > 0) || !(scale <= 0x1p20)) fail("scale is {}; expected above 0, up to 2^20", scale);
    Dim d = scaled(x[axis], scale);
    if (d.known() && d.value() < 1) fail("an extent of {} scaled by {} leaves no pixel", to_string(x[axis]), scale);
    return d;
  };
  return {x[0], x[1], extent(2, r.height, r.scale_h), extent(3, r.width, r.scale_w)};
}

Shape Inference::operator()(const operators::Concat& c) const {
  if (inputs_.empty()) fail("was given no inputs");
  Shape r = shape(0);
  if (c.axis < 0 || c.axis >= std::ssize(r)) fail("axis is {}; inputs have rank {}", c.axis, r.size());
  const auto axis = static_cast<std::size_t>(c.axis);
  std::vector<Dim> parts{r[axis]};
  for (std::size_t i = 1; i < inputs_.size(); ++i) {
    const Shape& s = shape(i);
    bool fits = s.size() == r.size();
    for (std::size_t d = 0; fits && d < r.size(); ++d) {
      if (d == axis) continue;
      fits = may_equal(s[d], r[d]);
      if (!r[d].known() && s[d].known()) r[d] = s[d];
    }
    if (!fits)
      fail("input '{}' {} does not match '{}' {} in all extents but axis {}", inputs_[i]->name, to_string(s),
           inputs_[0]->name, to_string(shape(0)), c.axis);
    parts.push_back(s[axis]);
  }
  std::int64_t sum = 0;
  std::string symbols;
  for (const Dim& d : parts) {
    if (d.known()) {
      sum += d.value();
    } else {
      symbols += (symbols.empty() ? "" : "+") + d.symbol();
    }
  }
  r[axis] = symbols.empty() ? Dim(sum) : parts.size() == 1 ? parts[0] : affine(Dim(symbols), 1, sum);
  return r;
}

Shape Inference::operator()(const operators::Pad& p) const {
  count(1, 1);
  Shape r = shape(0);
  if (p.before.size() != r.size() || p.after.size() != r.size())
    fail("was given {} and {} margins for shape {}", p.before.size(), p.after.size(), to_string(r));
  for (std::size_t i = 0; i < r.size(); ++i) {
    const auto in_range = [](std::int64_t v) { return v >= -largest_extent && v <= largest_extent; };
    if (!in_range(p.before[i]) || !in_range(p.after[i]))
      fail("margins {} and {} of axis {} are out of range", p.before[i], p.after[i], i);
    const Dim d = affine(r[i], 1, p.before[i] + p.after[i]);
    const bool crops_all =
        r[i].known() &&
        (r[i].value() + std::min<std::int64_t>(p.before[i], 0) + std::min<std::int64_t>(p.after[i], 0) < 1);
    // a constant may stand around nothing
    const bool around_nothing =
        r[i].known() && r[i].value() == 0 && p.mode == PadMode::constant && std::min(p.before[i], p.after[i]) >= 0;
    if (!around_nothing && (crops_all || (d.known() && d.value() < 1)))
      fail("margins {} and {} leave nothing of extent {}", p.before[i], p.after[i], to_string(r[i]));
    if (p.mode == PadMode::reflect && r[i].known() && std::max(p.before[i], p.after[i]) >= r[i].value())
      fail("reflected margins {} and {} must be below the extent {}", p.before[i], p.after[i], r[i].value());
    r[i] = d;
  }
  return r;
}

Shape Inference::operator()(const operators::Flatten& f) const {
  count(1, 1);
  const Shape& x = shape(0);
  if (f.axis < 0 || f.axis > std::ssize(x)) fail("axis is {}; expected 0 to {}", f.axis, x.size());
  const auto axis = static_cast<std::size_t>(f.axis);
  const std::span<const Dim> all(x);
  return {product(all.first(axis)), product(all.subspan(axis))};
}

Shape Inference::operator()(const operators::Transpose& t) const {
  count(1, 1);
  const Shape& x = shape(0);
  std::vector<int> sorted = t.order;
  std::sort(sorted.begin(), sorted.end());
  bool permutation = sorted.size() == x.size();
  for (std::size_t i = 0; permutation && i < sorted.size(); ++i) permutation = sorted[i] == static_cast<int>(i);
  if (!permutation)
    fail("order ({}) is not a permutation of the {} axes of {}", fmt::join(t.order, ","), x.size(), to_string(x));
  Shape r;
  for (const int i : t.order) r.push_back(x[static_cast<std::size_t>(i)]);
  return r;
}

// A result without elements needs none of an input: batches of 0
void check_extents(const OperatorKind& kind, std::span<const NetworkTensor* const> inputs, const Shape& result,
                   const std::string& where) {
  if (takes_empty(kind) || std::find(result.begin(), result.end(), Dim(0)) != result.end()) return;
  for (const NetworkTensor* x : inputs)
    for (const Dim& d : x->shape)
      if (d.known() && d.value() == 0)
        throw UserError(fmt::format("{}: input '{}' has shape {}: no elements", where, x->name, to_string(x->shape)));
}

}  // namespace

}  // namespace network

Shape infer_shape(const OperatorKind& kind, std::span<const NetworkTensor* const> inputs, const std::string& where) {
  for (const NetworkTensor* x : inputs) network::check_size(x->shape, where + ", input '" + x->name + "'");
  Shape shape = std::visit(network::Inference(inputs, where), kind);
  network::check_extents(kind, inputs, shape, where);
  network::check_size(shape, where);
  return shape;
}

}  // namespace unisono
