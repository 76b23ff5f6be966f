#include "reference/network/operators.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "reference/network/index.hpp"
#include "reference/network/tensors.hpp"
#include "reference/pooling.hpp"
#include "reference/reference.hpp"
#include "reference/resize.hpp"
#include "unisono/builder.hpp"
#include "unisono/error.hpp"

namespace unisono::float64 {
namespace {

constexpr double u = f32_roundoff;

/// A sum of n terms in f32 is taken to be off by √n·u·Σ|terms|, not by (n − 1)·u·Σ|terms|, which hardly ever comes
/// near: N. J. Higham, T. Mary, "A New Approach to Probabilistic Rounding Error Analysis", SIAM J. Sci. Comput. 41(5),
/// 2019.
reference::ErrorModel contraction_model(std::int64_t depth) {
  return {.accumulate = u / std::sqrt(static_cast<double>(depth))};
}
reference::ErrorModel reduction_model(std::int64_t count) {
  return {.longest_chain = static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(count)))) + 1};
}

ConstTensorView view(const Tensor64& x) { return {x.value.data(), DType::f64, x.shape, {}}; }

Tensor64 permuted(const Tensor64& x, const std::vector<int>& order) {
  const Extents64 from = row_major_strides(x.shape);
  Extents64 shape, strides;
  for (const int axis : order) {
    shape.push_back(x.shape[static_cast<std::size_t>(axis)]);
    strides.push_back(from[static_cast<std::size_t>(axis)]);
  }
  Tensor64 out = empty_tensor(shape);
  walk(shape, strides, 0,
       [&](std::size_t to, std::size_t at) { out.value[to] = x.value[at], out.bound[to] = x.bound[at]; });
  return out;
}

Tensor64 from_values(reference::Values values, Extents64 shape) {
  return {std::move(shape), std::move(values.value), std::move(values.bound)};
}

/// A contraction's values. The bounds are the sums of the sizes of all terms times √depth·u: where f32 cannot hold such
/// a sum, there is no claim.
Tensor64 contracted(reference::Values values, Extents64 shape, std::int64_t depth, DType t) {
  Tensor64 y = from_values(std::move(values), std::move(shape));
  const double factor = std::sqrt(static_cast<double>(depth)) * u;
  for (std::size_t i = 0; i < y.value.size(); ++i)
    y.bound[i] = bound_within(y.bound[i], y.value[i], y.bound[i] / factor, t);
  return y;
}

/// (N,P,Q,K) → (N,K,P,Q)
Tensor64 channels_first(const Tensor64& x) { return permuted(x, {0, 3, 1, 2}); }
Tensor64 channels_last(const Tensor64& x) { return permuted(x, {0, 2, 3, 1}); }

bool takes_bool(Op op, std::size_t input) {
  return op == Op::logical_and || op == Op::logical_or || op == Op::logical_not || (op == Op::select && input == 0);
}

Tensor64 elementwise(const operators::Elementwise& e, const ReferenceInputs& inputs) {
  const Extents64 shape = broadcast_shape(inputs);
  const std::int64_t count = element_count(shape);
  if (count == 0) return empty_tensor(shape);
  const Gemm space{.m = 1, .n = count, .k = 1};
  GraphBuilder g;
  std::vector<std::vector<double>> data;
  std::vector<Value> values;
  Arguments arguments;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    data.push_back(expanded(*inputs[i], shape));
    const std::string name = "x" + std::to_string(i);
    const Value x = g.operand(name, axes::mn);
    values.push_back(takes_bool(e.op, i) ? x != 0.0 : x);
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    arguments.operands["x" + std::to_string(i)] = {data[i].data(), DType::f64, shape_mn(space), {}};
  }
  const std::optional<DType> to = e.op == Op::cast ? std::optional(DType::f32) : std::nullopt;
  g.store(g.node(e.op, values, e.attr, to), DType::f32, "y");
  const reference::Values acc{axes::mn, std::vector<double>(static_cast<std::size_t>(count)), {}};
  return from_values(reference::evaluate(g.build(), space, acc, arguments).at("y"), shape);
}

/// Runs `make(graph)` over pixels and channels of an image, or over rows and the last extent of anything else. Its sums
/// have up to `terms` terms.
template <class Make>
Tensor64 over_channels(const Tensor64& x, const std::map<std::string, const Tensor64*>& vectors, std::int64_t terms,
                       const Make& make) {
  if (element_count(x.shape) == 0) return empty_tensor(x.shape);
  const bool image = x.shape.size() == 4;
  const Tensor64 last = image ? channels_last(x) : x;
  Contraction space;
  if (image) {
    space = Conv2d{.n = x.shape[0], .h = x.shape[2], .w = x.shape[3], .c = 1, .k = x.shape[1]};
  } else {
    const std::int64_t columns = x.shape.back();
    space = Gemm{.m = element_count(x.shape) / columns, .n = columns, .k = 1};
  }
  GraphBuilder g;
  Arguments arguments;
  for (const auto& [name, vector] : vectors) {
    arguments.operands[name] = {vector->value.data(), DType::f64, {element_count(vector->shape)}, {}};
  }
  g.store(make(g), DType::f32, "y");
  const reference::Values acc{axes::mn, last.value, {}};
  Tensor64 y =
      from_values(reference::evaluate(g.build(), space, acc, arguments, reduction_model(terms)).at("y"), last.shape);
  return image ? channels_first(y) : y;
}

Tensor64 normalisation(const operators::Normalisation& n, const ReferenceInputs& inputs) {
  std::map<std::string, const Tensor64*> vectors;
  if (n.has_scale) vectors["scale"] = inputs[1];
  if (n.has_shift) vectors["shift"] = inputs[n.has_scale ? 2 : 1];
  const Extents64& shape = inputs[0]->shape;
  const std::int64_t channels = shape.size() == 4 ? shape[1] : shape.back();
  const std::int64_t pixels = shape.size() == 4 ? shape[2] * shape[3] : 1;
  const bool over_pixels = n.op == Op::group_norm || n.op == Op::instance_norm;
  const std::int64_t terms = over_pixels ? std::max<std::int64_t>(1, channels / n.groups) * pixels : channels;
  return over_channels(*inputs[0], vectors, terms, [&](GraphBuilder& g) {
    NormOptions options;
    options.groups = n.groups;
    options.eps = n.eps;
    if (n.has_scale) options.scale = g.operand("scale", axes::n);
    if (n.has_shift) options.shift = g.operand("shift", axes::n);
    switch (n.op) {
      case Op::group_norm: return group_norm(g.acc(), options);
      case Op::instance_norm: return instance_norm(g.acc(), options);
      case Op::layer_norm: return layer_norm(g.acc(), options);
      case Op::rms_norm: return rms_norm(g.acc(), options);
      default: throw InternalError("unknown normalisation");
    }
  });
}

Tensor64 batch_norm(const operators::BatchNorm& b, const ReferenceInputs& inputs) {
  const Tensor64& x = *inputs[0];
  const std::int64_t channels = x.shape.size() > 1 ? x.shape[1] : x.shape[0];
  const std::int64_t inner = x.shape.size() > 2 ? element_count({x.shape.begin() + 2, x.shape.end()}) : 1;
  Tensor64 y = empty_tensor(x.shape);
  for (std::size_t i = 0; i < y.value.size(); ++i) {
    const auto c = static_cast<std::size_t>(static_cast<std::int64_t>(i) / inner % channels);
    const double factor = inputs[1]->value[c] / std::sqrt(inputs[4]->value[c] + b.eps);
    y.value[i] = (x.value[i] - inputs[3]->value[c]) * factor + inputs[2]->value[c];
    // six roundings, of terms of these sizes, in whatever way the formula is arranged
    const double sizes =
        std::abs(x.value[i] * factor) + std::abs(inputs[3]->value[c] * factor) + std::abs(inputs[2]->value[c]);
    y.bound[i] = bound_within(6 * u * sizes, y.value[i], sizes, x.dtype);
  }
  return y;
}

void add_bias(Tensor64& y, const ReferenceInputs& inputs, std::int64_t inner) {
  if (inputs.size() < 3) return;
  const Tensor64& bias = *inputs[2];
  for (std::size_t i = 0; i < y.value.size(); ++i) {
    y.value[i] += bias.value[static_cast<std::size_t>(static_cast<std::int64_t>(i) / inner) % bias.value.size()];
    if (std::isfinite(y.value[i])) y.bound[i] += u * std::abs(y.value[i]);
  }
}

template <class To>
Tensor64 convolution(const ConvAttributes& from, To to, const ReferenceInputs& inputs) {
  const Extents64 &x = inputs[0]->shape, &w = inputs[1]->shape;
  const bool transposed = std::is_same_v<To, ConvTranspose2d>;
  to.n = x[0], to.c = x[1], to.h = x[2], to.w = x[3];
  to.k = transposed ? w[1] * from.groups : w[0];
  to.r = w[2], to.s = w[3];
  to.stride = from.stride;
  to.pad = from.pad;
  to.dilation = from.dilation;
  to.groups = from.groups;
  to.layout = Layout::nchw;
  to.dtype_x = to.dtype_w = DType::f64;
  const Extents e = extents(Contraction(to));
  Tensor64 y = channels_first(
      contracted(reference::contract(to, view(*inputs[0]), view(*inputs[1]), contraction_model(depth(to))),
                 {e.images, e.height, e.width, e.cols}, depth(to), inputs[0]->dtype));
  add_bias(y, inputs, e.height * e.width);
  return y;
}

Tensor64 gemm(const operators::Gemm& g, const ReferenceInputs& inputs) {
  const Extents64 &a = inputs[0]->shape, &b = inputs[1]->shape;
  Gemm problem{
      .transpose_a = g.transpose_a, .transpose_b = g.transpose_b, .dtype_a = DType::f64, .dtype_b = DType::f64};
  problem.k = g.transpose_a ? a[0] : a.back();
  problem.n = g.transpose_b ? b[0] : b[1];
  problem.m = element_count(a) / problem.k;
  Extents64 shape = g.transpose_a ? Extents64{a[1], problem.n} : a;
  shape.back() = problem.n;
  if (problem.m == 0) return empty_tensor(shape);
  Tensor64 left = *inputs[0], right = *inputs[1];
  left.shape = shape_a(problem);
  right.shape = shape_b(problem);
  Tensor64 y = contracted(reference::contract(problem, view(left), view(right), contraction_model(problem.k)), shape,
                          problem.k, inputs[0]->dtype);
  add_bias(y, inputs, 1);
  return y;
}

Tensor64 pool(const operators::Pool2d& p, const Tensor64& x) {
  const reference::Pool2d pool{.kind = p.average ? reference::Pool2d::Kind::average : reference::Pool2d::Kind::max,
                               .kernel = {p.kernel.h, p.kernel.w},
                               .stride = {p.stride.h, p.stride.w},
                               .pad = {p.pad.top, p.pad.left, p.pad.bottom, p.pad.right},
                               .dilation = {p.dilation.h, p.dilation.w},
                               .ceil_mode = p.ceil_mode,
                               .count_pad = p.count_pad,
                               .layout = Layout::nchw};
  const auto [height, width] = reference::pooled_size(pool, x.shape[2], x.shape[3]);
  return channels_first(from_values(reference::pool(pool, view(x)), {x.shape[0], height, width, x.shape[1]}));
}

reference::CoordinateMode coordinate_mode(ResizeCoordinates c) {
  switch (c) {
    case ResizeCoordinates::half_pixel: return reference::CoordinateMode::half_pixel;
    case ResizeCoordinates::pytorch_half_pixel: return reference::CoordinateMode::pytorch_half_pixel;
    case ResizeCoordinates::asymmetric: return reference::CoordinateMode::asymmetric;
    case ResizeCoordinates::align_corners: return reference::CoordinateMode::align_corners;
    default: throw InternalError("resize coordinates that only resample has");
  }
}

reference::NearestMode nearest_mode(NearestRounding r) {
  switch (r) {
    case NearestRounding::round_prefer_floor: return reference::NearestMode::round_prefer_floor;
    case NearestRounding::round_prefer_ceil: return reference::NearestMode::round_prefer_ceil;
    case NearestRounding::floor: return reference::NearestMode::floor;
    case NearestRounding::ceil: return reference::NearestMode::ceil;
  }
  throw InternalError("unknown rounding");
}

Tensor64 resize(operators::Resize r, const ReferenceInputs& in) {
  const Tensor64& x = *in[0];
  if (r.height == -1) r.height = in[1]->shape[2];
  if (r.width == -1) r.width = in[1]->shape[3];
  const auto extent = [](std::int64_t given, double scale, std::int64_t from) {
    return given != 0 ? given : static_cast<std::int64_t>(std::floor(static_cast<double>(from) * scale));
  };
  reference::Resize resize;
  resize.mode = r.mode == ResizeMode::nearest ? reference::Resize::Mode::nearest : reference::Resize::Mode::linear;
  resize.size = {extent(r.height, r.scale_h, x.shape[2]), extent(r.width, r.scale_w, x.shape[3])};
  resize.scale = {r.height != 0 ? 0 : r.scale_h, r.width != 0 ? 0 : r.scale_w};
  resize.coordinates = coordinate_mode(r.coordinates);
  resize.nearest = nearest_mode(r.rounding);
  resize.layout = Layout::nchw;
  return channels_first(
      from_values(reference::resize(resize, view(x)), {x.shape[0], resize.size[0], resize.size[1], x.shape[1]}));
}

Tensor64 concat(int axis, const ReferenceInputs& inputs) {
  const auto a = static_cast<std::size_t>(axis < 0 ? axis + static_cast<int>(inputs[0]->shape.size()) : axis);
  Extents64 shape = inputs[0]->shape;
  shape[a] = 0;
  for (const Tensor64* x : inputs) shape[a] += x->shape[a];
  Tensor64 y{shape, {}, {}};
  std::int64_t outer = 1;
  for (std::size_t i = 0; i < a; ++i) outer *= shape[i];
  for (std::int64_t o = 0; o < outer; ++o) {
    for (const Tensor64* x : inputs) {
      const std::int64_t piece = element_count(x->shape) / outer;
      const auto begin = x->value.begin() + o * piece;
      y.value.insert(y.value.end(), begin, begin + piece);
    }
  }
  y.bound.assign(y.value.size(), 0.0);
  return y;
}

Tensor64 pad(const operators::Pad& p, const Tensor64& x) {
  Extents64 shape = x.shape;
  for (std::size_t i = 0; i < shape.size(); ++i) shape[i] += p.before[i] + p.after[i];
  Tensor64 y = empty_tensor(shape);
  const Extents64 to = row_major_strides(shape), from = row_major_strides(x.shape);
  for (std::size_t i = 0; i < y.value.size(); ++i) {
    std::int64_t rest = static_cast<std::int64_t>(i), at = 0;
    bool inside = true;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const std::int64_t index = rest / to[d] - p.before[d];
      rest %= to[d];
      inside = inside && index >= 0 && index < x.shape[d];
      at += index * from[d];
    }
    y.value[i] = inside ? x.value[static_cast<std::size_t>(at)] : p.value;
  }
  return y;
}

Tensor64 reshape(const operators::Reshape& r, const Tensor64& x) {
  Extents64 shape = r.shape;
  std::int64_t known = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0 && !r.literal) shape[i] = x.shape[i];
    if (shape[i] <= -2) shape[i] = x.shape[static_cast<std::size_t>(-2 - shape[i])];
    if (shape[i] > 0) known *= shape[i];
  }
  for (std::int64_t& extent : shape) {
    if (extent == -1) extent = known == 0 ? 0 : element_count(x.shape) / known;
  }
  return reshaped(x, shape);
}

Tensor64 flatten(int axis, const Tensor64& x) {
  const auto split = static_cast<std::size_t>(axis < 0 ? axis + static_cast<int>(x.shape.size()) : axis);
  const auto middle = x.shape.begin() + static_cast<std::ptrdiff_t>(split);
  return reshaped(x, {element_count({x.shape.begin(), middle}), element_count({middle, x.shape.end()})});
}

struct Evaluate {
  const ReferenceInputs& in;

  Tensor64 operator()(const operators::Conv2d& o) const { return convolution(o, Conv2d{}, in); }
  Tensor64 operator()(const operators::ConvTranspose2d& o) const {
    ConvTranspose2d to;
    to.output_pad = o.output_pad;
    return convolution(o, to, in);
  }
  Tensor64 operator()(const operators::Gemm& o) const { return gemm(o, in); }
  Tensor64 operator()(const operators::Elementwise& o) const { return elementwise(o, in); }
  Tensor64 operator()(const operators::Normalisation& o) const { return normalisation(o, in); }
  Tensor64 operator()(const operators::BatchNorm& o) const { return batch_norm(o, in); }
  Tensor64 operator()(const operators::Softmax&) const {
    const Extents64& shape = in[0]->shape;
    return over_channels(*in[0], {}, shape.size() == 4 ? shape[1] : shape.back(),
                         [](GraphBuilder& g) { return softmax(g.acc(), over_n); });
  }
  Tensor64 operator()(const operators::Pool2d& o) const { return pool(o, *in[0]); }
  Tensor64 operator()(const operators::GlobalAveragePool&) const {
    const Extents64& shape = in[0]->shape;
    return pool({.average = true, .kernel = {shape[2], shape[3]}}, *in[0]);
  }
  Tensor64 operator()(const operators::Resize& o) const { return resize(o, in); }
  Tensor64 operator()(const operators::Concat& o) const { return concat(o.axis, in); }
  Tensor64 operator()(const operators::Pad& o) const {
    return o.mode == PadMode::constant ? pad(o, *in[0]) : pad_repeating(o, *in[0]);
  }
  Tensor64 operator()(const operators::Reshape& o) const { return reshape(o, *in[0]); }
  Tensor64 operator()(const operators::Flatten& o) const { return flatten(o.axis, *in[0]); }
  Tensor64 operator()(const operators::Transpose& o) const {
    Tensor64 y = permuted(*in[0], o.order);
    y.bound.assign(y.value.size(), 0.0);
    return y;
  }
  Tensor64 operator()(const operators::Expand&) const {
    const Extents64 shape = broadcast_shape(in);
    return {shape, expanded(*in[0], shape), std::vector<double>(static_cast<std::size_t>(element_count(shape)), 0.0)};
  }
  Tensor64 operator()(const operators::Identity&) const { return reshaped(*in[0], in[0]->shape); }
  Tensor64 operator()(const operators::StackedConv3d&) const { throw prepared("conv3d of stacked planes"); }
  Tensor64 operator()(const operators::UpsampledConv2d&) const { throw prepared("conv2d of an upsampled image"); }
  Tensor64 operator()(const operators::Attention&) const { throw prepared("attention"); }
  Tensor64 operator()(const operators::NormGradient&) const { throw prepared("the gradient of a normalisation"); }
  Tensor64 operator()(const operators::PixelReshape&) const { throw prepared("reshape of rows of pixels"); }
  Tensor64 operator()(const auto& o) const {
    Tensor64 y = evaluate_tensors(o, in);
    for (std::size_t i = 0; i < y.value.size(); ++i)
      if (!std::isfinite(y.value[i])) y.bound[i] = 0;  // what infinities and NaN among the inputs make is certain
    return y;
  }
  static InternalError prepared(const char* what) {
    return InternalError(fmt::format("{}: the reference computes networks as they are given", what));
  }
};

bool is_of_images(const OperatorKind& kind) {
  return std::holds_alternative<operators::Conv2d>(kind) || std::holds_alternative<operators::ConvTranspose2d>(kind) ||
         std::holds_alternative<operators::Pool2d>(kind) ||
         std::holds_alternative<operators::GlobalAveragePool>(kind) || std::holds_alternative<operators::Resize>(kind);
}

/// The extents that one image's result has, without elements.
Tensor64 of_no_images(const OperatorKind& kind, ReferenceInputs inputs) {
  Extents64 shape = inputs[0]->shape;
  shape[0] = 1;
  const Tensor64 image = empty_tensor(shape);
  inputs[0] = &image;
  Extents64 of_result = std::visit(Evaluate{inputs}, kind).shape;
  of_result[0] = 0;
  return empty_tensor(of_result);
}

}  // namespace

Tensor64 evaluate_operator(const OperatorKind& kind, const std::vector<const Tensor64*>& inputs) {
  if (is_of_images(kind) && inputs[0]->shape[0] == 0) return of_no_images(kind, inputs);
  return std::visit(Evaluate{inputs}, kind);
}

}  // namespace unisono::float64
