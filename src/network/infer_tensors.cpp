#include "network/infer_tensors.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "network/dim.hpp"
#include "unisono/error.hpp"

namespace unisono::network {

namespace {

template <class... T>
[[noreturn]] void fail(const OperatorInputs& in, fmt::format_string<T...> format, T&&... args) {
  throw UserError(fmt::format("{}: {}", in.where, fmt::format(format, std::forward<T>(args)...)));
}

void count(const OperatorInputs& in, std::size_t least, std::size_t most) {
  if (in.tensors.size() >= least && in.tensors.size() <= most) return;
  if (least == most) fail(in, "was given {} inputs; expected {}", in.tensors.size(), least);
  fail(in, "was given {} inputs; expected {} to {}", in.tensors.size(), least, most);
}

void check_axis(const OperatorInputs& in, int axis, std::size_t rank) {
  if (axis < 0 || axis >= static_cast<int>(rank)) fail(in, "axis is {}; expected 0 to below {}", axis, rank);
}

void positive(const OperatorInputs& in, std::string_view what, const std::vector<std::int64_t>& list, std::size_t n) {
  if (list.size() != n) fail(in, "{} has {} numbers; expected {}", what, list.size(), n);
  for (const auto v : list)
    if (v < 1 || v > largest_step) fail(in, "{} has {}; expected 1 to 2^24", what, v);
}

void not_negative(const OperatorInputs& in, std::string_view what, const std::vector<std::int64_t>& list,
                  std::size_t n) {
  if (list.size() != n) fail(in, "{} has {} numbers; expected {}", what, list.size(), n);
  for (const auto v : list)
    if (v < 0 || v > largest_step) fail(in, "{} has {}; expected 0 to 2^24", what, v);
}

Dim window(const OperatorInputs& in, const Dim& x, std::int64_t pad, std::int64_t span, std::int64_t stride,
           bool ceil) {
  if (const auto d = window_count(x, pad, span, stride, ceil)) return *d;
  fail(in, "a window of {} elements does not fit an extent of {} with {} of padding", span, to_string(x), pad);
}

Shape reduced(const OperatorInputs& in, const std::vector<int>& axes, bool keep) {
  const Shape& x = in.shape(0);
  Shape r;
  for (const int a : axes) {
    check_axis(in, a, x.size());
    if (std::count(axes.begin(), axes.end(), a) > 1) fail(in, "axis {} is named twice", a);
  }
  for (std::size_t i = 0; i < x.size(); ++i) {
    const bool gone = axes.empty() || std::find(axes.begin(), axes.end(), static_cast<int>(i)) != axes.end();
    if (!gone) {
      r.push_back(x[i]);
    } else if (keep) {
      r.push_back(1);
    }
  }
  return r;
}

// Coordinates stay below 2^53, where every integer has a neighbour; the taps of a filter that is as wide as an output
// element would have no bound
void check_scale(const OperatorInputs& in, double scale) {
  if (!(scale > 0) || !(scale <= 0x1p20)) fail(in, "scale is {}; expected above 0, up to 2^20", scale);
}

void check_region(const OperatorInputs& in, const operators::Resample& r) {
  const std::size_t rank = in.shape(0).size();
  if (r.roi_begin.size() != rank || r.roi_end.size() != rank)
    fail(in, "was given a region of {} to {} numbers for shape {}", r.roi_begin.size(), r.roi_end.size(),
         to_string(in.shape(0)));
  for (const auto* list : {&r.roi_begin, &r.roi_end})
    for (const double v : *list)
      if (!(std::abs(v) <= 0x1p20)) fail(in, "the region of interest has {}; expected -2^20 to 2^20", v);
  if (r.antialias) fail(in, "antialias is not supported for a region of interest");
}

constexpr std::size_t map_operands[] = {
#define UNISONO_MAP(NAME, OPERANDS, ...) OPERANDS,
#define UNISONO_MAP_OTHER(NAME, OPERANDS, ...) OPERANDS,
#include "unisono/network/maps.def"
};

}  // namespace

Shape broadcast_shapes(const Shape& x, const Shape& y, const std::string& where) {
  Shape r(std::max(x.size(), y.size()));
  for (std::size_t i = 0; i < r.size(); ++i) {
    const Dim a = i < x.size() ? x[x.size() - 1 - i] : Dim(1);
    const Dim b = i < y.size() ? y[y.size() - 1 - i] : Dim(1);
    if (!may_equal(a, b) && !is_one(a) && !is_one(b))
      throw UserError(fmt::format("{}: shapes {} and {} do not broadcast: extents {} and {} differ and neither is 1",
                                  where, to_string(x), to_string(y), to_string(a), to_string(b)));
    r[r.size() - 1 - i] = broadcast(a, b);
  }
  return r;
}

Shape infer_tensor_shape(const operators::Map& m, const OperatorInputs& in) {
  const std::size_t n = map_operands[static_cast<std::size_t>(m.op)];
  count(in, n, n);
  Shape r = in.shape(0);
  for (std::size_t i = 1; i < n; ++i) r = broadcast_shapes(r, in.shape(i), in.where);
  return r;
}

Shape infer_tensor_shape(const operators::Reduce& r, const OperatorInputs& in) {
  count(in, 1, 1);
  return reduced(in, r.axes, r.keep);
}

Shape infer_tensor_shape(const operators::ArgReduce& a, const OperatorInputs& in) {
  count(in, 1, 1);
  check_axis(in, a.axis, in.shape(0).size());
  const Dim& d = in.shape(0)[static_cast<std::size_t>(a.axis)];
  if (d.known() && d.value() == 0) fail(in, "axis {} has no elements", a.axis);
  return reduced(in, {a.axis}, a.keep);
}

Shape infer_tensor_shape(const operators::Gather& g, const OperatorInputs& in) {
  count(in, 2, 2);
  const Shape &x = in.shape(0), &at = in.shape(1);
  check_axis(in, g.axis, x.size());
  Shape r(x.begin(), x.begin() + g.axis);
  r.insert(r.end(), at.begin(), at.end());
  r.insert(r.end(), x.begin() + g.axis + 1, x.end());
  return r;
}

Shape infer_tensor_shape(const operators::Tile& t, const OperatorInputs& in) {
  count(in, 1, 1);
  Shape r = in.shape(0);
  if (t.repeats.size() != r.size()) fail(in, "was given {} repeats for shape {}", t.repeats.size(), to_string(r));
  for (std::size_t i = 0; i < r.size(); ++i) {
    if (t.repeats[i] < 0 || t.repeats[i] > largest_extent) fail(in, "repeats has {}", t.repeats[i]);
    r[i] = affine(r[i], t.repeats[i], 0);
  }
  return r;
}

Shape infer_tensor_shape(const operators::DepthToSpace& k, const OperatorInputs& in) {
  count(in, 1, 1);
  const Shape& x = in.shape(0);
  if (x.size() != 4) fail(in, "the input has shape {}; expected 4 extents (N,C,H,W)", to_string(x));
  if (k.block < 1 || k.block > 4096) fail(in, "blocksize is {}; expected 1 to 4096", k.block);
  const std::int64_t b = k.block;
  const auto divided = [&](const Dim& d, std::int64_t by) -> Dim {
    if (!d.known()) return formula(fmt::format("({})/{}", to_string(d), by));
    if (d.value() % by != 0) fail(in, "extent {} of {} is not a multiple of {}", d.value(), to_string(x), by);
    return Dim(d.value() / by);
  };
  if (k.inverse) return {x[0], affine(x[1], b * b, 0), divided(x[2], b), divided(x[3], b)};
  return {x[0], divided(x[1], b * b), affine(x[2], b, 0), affine(x[3], b, 0)};
}

Shape infer_tensor_shape(const operators::ReshapeLike&, const OperatorInputs& in) {
  count(in, 2, 2);
  const Dim have = product(in.shape(0)), want = product(in.shape(1));
  if (!may_equal(have, want)) fail(in, "{} does not reshape to {}", to_string(in.shape(0)), to_string(in.shape(1)));
  return in.shape(1);
}

Shape infer_tensor_shape(const operators::ShapeOf& s, const OperatorInputs& in) {
  count(in, 1, 1);
  const auto rank = static_cast<int>(in.shape(0).size());
  if (s.begin < 0 || s.end < s.begin || s.end > rank) fail(in, "extents {} to {} of {}", s.begin, s.end, rank);
  return {s.end - s.begin};
}

Shape infer_tensor_shape(const operators::MatMul&, const OperatorInputs& in) {
  count(in, 2, 2);
  const Shape &a = in.shape(0), &b = in.shape(1);
  if (a.size() < 2 || b.size() < 2)
    fail(in, "operands have shapes {} and {}; expected matrices", to_string(a), to_string(b));
  if (!may_equal(a.back(), b[b.size() - 2]))
    fail(in, "left operand {} has depth {}, and right operand {} has {}", to_string(a), to_string(a.back()),
         to_string(b), to_string(b[b.size() - 2]));
  Shape r = broadcast_shapes(Shape(a.begin(), a.end() - 2), Shape(b.begin(), b.end() - 2), in.where);
  r.push_back(a[a.size() - 2]);
  r.push_back(b.back());
  return r;
}

Shape infer_tensor_shape(const operators::Conv3d& c, const OperatorInputs& in) {
  count(in, 2, 3);
  const Shape &x = in.shape(0), &w = in.shape(1);
  if (x.size() != 5 || w.size() != 5)
    fail(in, "image and filter have shapes {} and {}; expected 5 extents each", to_string(x), to_string(w));
  positive(in, "stride", c.stride, 3);
  positive(in, "dilation", c.dilation, 3);
  not_negative(in, "pads", c.before, 3);
  not_negative(in, "pads", c.after, 3);
  not_negative(in, "output_padding", c.output_pad, 3);
  for (std::size_t i = 1; i < 5; ++i)
    if (!w[i].known() || !w[0].known() || !x[1].known())
      fail(in, "image and filter have shapes {} and {}; channels and filter must be numbers", to_string(x),
           to_string(w));
  const std::int64_t channels = x[1].value(), g = c.groups;
  if (g < 1 || g > largest_extent) fail(in, "groups is {}; expected 1 to 2^31", g);
  const std::int64_t k = c.transposed ? w[1].value() * g : w[0].value();
  const std::int64_t taken = c.transposed ? w[0].value() : w[1].value() * g;
  if (channels % g != 0 || k % g != 0 || taken != channels)
    fail(in, "image {} and filter {} do not fit with groups={}", to_string(x), to_string(w), g);
  if (in.tensors.size() == 3 && !(in.shape(2) == Shape{k}))
    fail(in, "bias has shape {}; expected ({})", to_string(in.shape(2)), k);
  Shape r{x[0], k};
  for (std::size_t i = 0; i < 3; ++i) {
    const std::int64_t span = c.dilation[i] * (w[i + 2].value() - 1) + 1, pad = c.before[i] + c.after[i];
    if (!c.transposed) {
      r.push_back(window(in, x[i + 2], pad, span, c.stride[i], false));
      continue;
    }
    if (c.output_pad[i] >= std::max(c.stride[i], c.dilation[i]))
      fail(in, "output_padding has {}; expected below max(stride, dilation)", c.output_pad[i]);
    r.push_back(affine(x[i + 2], c.stride[i], span + c.output_pad[i] - pad - c.stride[i]));
    if (r.back().known() && r.back().value() < 1) fail(in, "the output would have {} elements", r.back().value());
  }
  return r;
}

// As of the volumes that it stands for
Shape infer_tensor_shape(const operators::StackedConv3d& c, const OperatorInputs& in) {
  count(in, 2, 3);
  const auto split = [&](std::size_t i, std::int64_t planes) {
    NetworkTensor t = *in.tensors[i];
    if (t.shape.size() != 4 || planes < 1 || !t.shape[2].known() || t.shape[2].value() % planes != 0)
      fail(in, "input '{}' has shape {}; expected 4 extents, with {} planes one below the other", t.name,
           to_string(t.shape), planes);
    t.shape[2] = Dim(t.shape[2].value() / planes);
    t.shape.insert(t.shape.begin() + 2, Dim(planes));
    return t;
  };
  const NetworkTensor x = split(0, c.planes), w = split(1, c.taps);
  std::vector<const NetworkTensor*> tensors{&x, &w};
  if (in.tensors.size() == 3) tensors.push_back(in.tensors[2]);
  const Shape y = infer_tensor_shape(c.conv, OperatorInputs{tensors, in.where});
  return {y[0], y[1], Dim(y[2].value() * y[3].value()), y[4]};
}

Shape infer_tensor_shape(const operators::NormGradient& g, const OperatorInputs& in) {
  return g.of == operators::NormGradient::Of::input ? in.shape(0) : Shape{in.shape(0).at(1)};
}

Shape infer_tensor_shape(const operators::FilterGradient& f, const OperatorInputs& in) {
  count(in, 2, 2);
  check_attributes(f, false, in.where);
  const Shape &x = in.shape(0), &g = in.shape(1);
  if (x.size() != 4 || g.size() != 4 || !x[1].known() || !g[1].known())
    fail(in, "inputs have shapes {} and {}; expected 4 extents each (N,C,H,W), and channels that are numbers",
         to_string(x), to_string(g));
  if (x[1].value() % f.groups != 0 || g[1].value() % f.groups != 0)
    fail(in, "{} input and {} output channels with groups={}; both must be multiples of groups", x[1].value(),
         g[1].value(), f.groups);
  Shape made{x[0], g[1]};
  for (const std::size_t i : {0U, 1U}) {
    if (f.filter[i] < 1 || f.filter[i] > largest_step) fail(in, "filter has {}; expected 1 to 2^24", f.filter[i]);
    made.push_back(
        window(in, x[i + 2], f.pad[i] + f.pad[i + 2], f.dilation[i] * (f.filter[i] - 1) + 1, f.stride[i], false));
  }
  for (std::size_t i = 0; i < 4; ++i)
    if (!may_equal(g[i], made[i]))
      fail(in, "gradient '{}' has shape {}; the convolution of '{}' {} has a result of {}", in.tensors[1]->name,
           to_string(g), in.tensors[0]->name, to_string(x), to_string(made));
  return {g[1], Dim(x[1].value() / f.groups), Dim(f.filter.h), Dim(f.filter.w)};
}

Shape infer_tensor_shape(const operators::PoolNd& p, const OperatorInputs& in) {
  count(in, 1, 1);
  const Shape& x = in.shape(0);
  if (x.size() < 3) fail(in, "the input has shape {}; expected at least 3 extents", to_string(x));
  const std::size_t n = x.size() - 2;
  positive(in, "kernel", p.kernel, n);
  positive(in, "stride", p.stride, n);
  positive(in, "dilation", p.dilation, n);
  not_negative(in, "pads", p.before, n);
  not_negative(in, "pads", p.after, n);
  Shape r{x[0], x[1]};
  for (std::size_t i = 0; i < n; ++i) {
    const std::int64_t span = p.dilation[i] * (p.kernel[i] - 1) + 1;
    if (p.before[i] >= span || p.after[i] >= span)
      fail(in, "pads {} and {} are not below the window of {}: it could lie wholly in them", p.before[i], p.after[i],
           span);
    Dim d = window(in, x[i + 2], p.before[i] + p.after[i], span, p.stride[i], p.ceil_mode);
    if (p.ceil_mode && d.known() && x[i + 2].known() && (d.value() - 1) * p.stride[i] >= x[i + 2].value() + p.before[i])
      d = Dim(d.value() - 1);
    r.push_back(d);
  }
  return r;
}

Shape infer_tensor_shape(const operators::Resample& r, const OperatorInputs& in) {
  const bool like = std::find(r.sizes.begin(), r.sizes.end(), -1) != r.sizes.end();
  count(in, like ? 2 : 1, like ? 2 : 1);
  const Shape& x = in.shape(0);
  if (r.scales.size() != x.size() || r.sizes.size() != x.size())
    fail(in, "was given {} scales and {} sizes for shape {}", r.scales.size(), r.sizes.size(), to_string(x));
  const bool region = r.coordinates == ResizeCoordinates::crop_and_resize;
  if (region) check_region(in, r);
  if (r.rounded_sizes && (like || region))
    fail(in, "rounded_sizes needs sizes that are numbers, and no region of interest");
  Shape y;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (r.sizes[i] == -1) {
      if (in.shape(1).size() <= i) fail(in, "{} has no axis {}", to_string(in.shape(1)), i);
      y.push_back(in.shape(1)[i]);
      continue;
    }
    if (r.sizes[i] != 0) {
      if (r.sizes[i] < 1 || r.sizes[i] > largest_extent) fail(in, "size is {}; expected 1 to 2^31", r.sizes[i]);
      if (r.rounded_sizes) check_scale(in, r.scales[i]);
      y.push_back(r.sizes[i]);
      continue;
    }
    const double scale = r.scales[i];
    check_scale(in, scale);
    if (region && !x[i].known()) fail(in, "a region of interest needs fixed extents; the input has {}", to_string(x));
    const double part = region ? r.roi_end[i] - r.roi_begin[i] : 1;
    if (!(part >= 0) || !(part <= 0x1p20)) fail(in, "the region of interest is {} wide", part);
    const double made = region ? static_cast<double>(x[i].value()) * part * scale : 0;
    if (!(made <= static_cast<double>(largest_extent))) fail(in, "the region of interest makes {} elements", made);
    y.push_back(region ? Dim(static_cast<std::int64_t>(std::floor(static_cast<double>(x[i].value()) * part * scale)))
                       : scaled(x[i], scale));
    if (y.back().known() && y.back().value() < 1) fail(in, "extent {} scaled by {} is empty", to_string(x[i]), scale);
  }
  return y;
}

}  // namespace unisono::network
