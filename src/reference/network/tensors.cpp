#include "reference/network/tensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "unisono/error.hpp"

namespace unisono::float64 {
namespace {

using Indices = std::vector<Extents64>;  // by axis of the result: places along that axis of the input

/// Picks elements, axis by axis.
Tensor64 take(const Tensor64& x, const Indices& indices) {
  Extents64 shape;
  for (const Extents64& along : indices) shape.push_back(static_cast<std::int64_t>(along.size()));
  Tensor64 y = empty_tensor(shape);
  std::size_t to = 0;
  for_indices(shape, [&](Extents64 index) {
    for (std::size_t d = 0; d < index.size(); ++d) index[d] = indices[d][static_cast<std::size_t>(index[d])];
    y.value[to++] = x.value[place(x.shape, index)];
  });
  return y;
}

Extents64 counting(std::int64_t count) {
  Extents64 all(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i);
  return all;
}

Indices all_of(const Extents64& shape) {
  Indices indices;
  for (const std::int64_t extent : shape) indices.push_back(counting(extent));
  return indices;
}

/// What NumPy picks with begin:end:step.
Extents64 slice(std::int64_t begin, std::int64_t end, std::int64_t step, std::int64_t extent) {
  const std::int64_t low = step > 0 ? 0 : -1, high = step > 0 ? extent : extent - 1;
  begin = std::clamp(begin < 0 ? begin + extent : begin, low, high);
  end = std::clamp(end < 0 ? end + extent : end, low, high);
  Extents64 picked;
  for (std::int64_t i = begin; step > 0 ? i < end : i > end; i += step) {
    picked.push_back(i);
    if (std::abs(step) >= extent) break;
  }
  return picked;
}

}  // namespace

Extents64 inferred_shape(const OperatorKind& kind, const ReferenceInputs& in) {
  std::vector<NetworkTensor> tensors;
  std::vector<const NetworkTensor*> types;
  tensors.reserve(in.size());
  types.reserve(in.size());
  for (const Tensor64* x : in) tensors.push_back({"x", x->dtype, Shape(x->shape.begin(), x->shape.end())});
  for (const NetworkTensor& t : tensors) types.push_back(&t);
  Extents64 shape;
  for (const Dim& d : infer_shape(kind, types, "reference")) shape.push_back(d.value());
  return shape;
}

Tensor64 evaluate_tensors(const operators::Slice& o, const ReferenceInputs& in) {
  Indices indices = all_of(in[0]->shape);
  const auto rank = static_cast<int>(indices.size());
  for (std::size_t i = 0; i < o.axes.size(); ++i) {
    const auto axis = static_cast<std::size_t>(o.axes[i] < 0 ? o.axes[i] + rank : o.axes[i]);
    const std::int64_t extent = in[0]->shape[axis];
    const bool given = o.parts == 0 || o.steps[i] > 1;
    const std::int64_t length = o.parts == 0 ? 1 : given ? o.steps[i] : (extent + o.parts - 1) / o.parts;
    indices[axis] = slice(o.starts[i] * length, o.ends[i] * length, o.parts == 0 ? o.steps[i] : 1, extent);
  }
  return take(*in[0], indices);
}

Tensor64 evaluate_tensors(const operators::Tile& o, const ReferenceInputs& in) {
  Indices indices;
  for (std::size_t d = 0; d < in[0]->shape.size(); ++d) {
    const std::int64_t extent = in[0]->shape[d];
    Extents64 along = counting(extent * o.repeats[d]);
    for (std::int64_t& i : along) i %= extent;
    indices.push_back(std::move(along));
  }
  return take(*in[0], indices);
}

Tensor64 pad_repeating(const operators::Pad& o, const Tensor64& x) {
  Indices indices;
  for (std::size_t d = 0; d < x.shape.size(); ++d) {
    const std::int64_t n = x.shape[d], period = o.mode == PadMode::wrap ? n : std::max<std::int64_t>(1, 2 * n - 2);
    Extents64 along = counting(o.before[d] + n + o.after[d]);
    for (std::int64_t& i : along) {
      i -= o.before[d];
      if (o.mode == PadMode::edge) {
        i = std::clamp<std::int64_t>(i, 0, n - 1);
      } else {
        i = ((i % period) + period) % period;
        if (i >= n) i = period - i;  // on the way back
      }
    }
    indices.push_back(std::move(along));
  }
  return take(x, indices);
}

Tensor64 evaluate_tensors(const operators::Gather& o, const ReferenceInputs& in) {
  const Tensor64 &x = *in[0], &indices = *in[1];
  const auto axis = static_cast<std::size_t>(o.axis < 0 ? o.axis + static_cast<int>(x.shape.size()) : o.axis);
  const auto at_axis = static_cast<std::ptrdiff_t>(axis);
  const auto rank = static_cast<std::ptrdiff_t>(indices.shape.size());
  Extents64 shape(x.shape.begin(), x.shape.begin() + at_axis);
  shape.insert(shape.end(), indices.shape.begin(), indices.shape.end());
  shape.insert(shape.end(), x.shape.begin() + at_axis + 1, x.shape.end());
  Tensor64 y = empty_tensor(shape);
  std::size_t to = 0;
  for_indices(shape, [&](const Extents64& index) {
    const Extents64 which(index.begin() + at_axis, index.begin() + at_axis + rank);
    const auto given = static_cast<std::int64_t>(indices.value[place(indices.shape, which)]);
    const std::int64_t picked = given < 0 ? given + x.shape[axis] : given;
    if (picked < 0 || picked >= x.shape[axis])
      throw UserError(fmt::format("index {} is outside an axis of extent {}", given, x.shape[axis]));
    Extents64 from(index.begin(), index.begin() + at_axis);
    from.push_back(picked);
    from.insert(from.end(), index.begin() + at_axis + rank, index.end());
    y.value[to++] = x.value[place(x.shape, from)];
  });
  return y;
}

Tensor64 evaluate_tensors(const operators::DepthToSpace& o, const ReferenceInputs& in) {
  const Tensor64& x = *in[0];
  const std::int64_t b = o.block;
  const Extents64 deep =
      o.inverse ? Extents64{x.shape[0], x.shape[1] * b * b, x.shape[2] / b, x.shape[3] / b} : x.shape;
  const std::int64_t channels = deep[1] / (b * b);
  const Extents64 wide{deep[0], channels, deep[2] * b, deep[3] * b};
  Tensor64 y = empty_tensor(o.inverse ? deep : wide);
  for_indices(wide, [&](const Extents64& i) {  // i: image, channel, row, column
    const std::int64_t cell = i[2] % b * b + i[3] % b;
    const std::int64_t channel = o.column_row_depth ? i[1] * b * b + cell : cell * channels + i[1];
    const std::size_t at_wide = place(wide, i), at_deep = place(deep, {i[0], channel, i[2] / b, i[3] / b});
    y.value[o.inverse ? at_deep : at_wide] = x.value[o.inverse ? at_wide : at_deep];
  });
  return y;
}

Tensor64 evaluate_tensors(const operators::ReshapeLike&, const ReferenceInputs& in) {
  return reshaped(*in[0], in[1]->shape);
}

Tensor64 evaluate_tensors(const operators::ShapeOf& o, const ReferenceInputs& in) {
  const Extents64& shape = in[0]->shape;
  Tensor64 y = empty_tensor({o.end - o.begin});
  for (int i = o.begin; i < o.end; ++i)
    y.value[static_cast<std::size_t>(i - o.begin)] = static_cast<double>(shape[static_cast<std::size_t>(i)]);
  return y;
}

Tensor64 evaluate_tensors(const operators::MatMul& o, const ReferenceInputs& in) {
  Tensor64 a = *in[0], b = *in[1];
  const Extents64 result = inferred_shape(o, in);
  if (a.shape.size() == 1) a.shape.insert(a.shape.begin(), 1);
  if (b.shape.size() == 1) b.shape.push_back(1);
  const std::int64_t m = a.shape[a.shape.size() - 2], k = a.shape.back(), n = b.shape.back();
  Tensor64 left = empty_tensor({a.shape.begin(), a.shape.end() - 2}),
           right = empty_tensor({b.shape.begin(), b.shape.end() - 2});
  Extents64 batch = broadcast_shape({&left, &right}), a_shape = batch, b_shape = batch;
  a_shape.insert(a_shape.end(), {m, k});
  b_shape.insert(b_shape.end(), {k, n});
  const std::vector<double> x = expanded(a, a_shape), w = expanded(b, b_shape);
  Tensor64 y = empty_tensor(result);
  const double u = unit_roundoff(a.dtype) * std::sqrt(static_cast<double>(k));
  for (std::int64_t i = 0; i < element_count(batch) * m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = 0, sizes = 0;
      for (std::int64_t l = 0; l < k; ++l) {
        const double term =
            x[static_cast<std::size_t>(i * k + l)] * w[static_cast<std::size_t>((i / m * k + l) * n + j)];
        sum += term;
        sizes += std::abs(term);
      }
      y.value[static_cast<std::size_t>(i * n + j)] = sum;
      y.bound[static_cast<std::size_t>(i * n + j)] = bound_within(u * sizes, sum, sizes, a.dtype);
    }
  }
  return y;
}

namespace {

/// Calls visit(place in x, place in w) for every pair that adds to one element of y: index (image, channel, …).
/// In a transposed convolution, input pixels p and taps t meet at p·stride + t·dilation − before.
template <class Visit>
void for_taps(const operators::Conv3d& o, const Extents64& y, const Extents64& x, const Extents64& w,
              const Extents64& index, const Visit& visit) {
  const std::int64_t per_group = y[1] / o.groups, group = index[1] / per_group;
  const std::int64_t inputs = x[1] / o.groups;
  for_indices({inputs, w[2], w[3], w[4]}, [&](const Extents64& tap) {
    const std::int64_t channel = group * inputs + tap[0];
    Extents64 from{index[0], channel, 0, 0, 0};
    for (std::size_t d = 0; d < 3; ++d) {
      const std::int64_t shift = tap[d + 1] * o.dilation[d] - o.before[d];
      std::int64_t at = o.transposed ? index[d + 2] - shift : index[d + 2] * o.stride[d] + shift;
      if (o.transposed && (at < 0 || at % o.stride[d] != 0)) return;
      if (o.transposed) at /= o.stride[d];
      if (at < 0 || at >= x[d + 2]) return;
      from[d + 2] = at;
    }
    const std::int64_t own = index[1] % per_group;
    const Extents64 weight = o.transposed ? Extents64{channel, own, tap[1], tap[2], tap[3]}
                                          : Extents64{index[1], tap[0], tap[1], tap[2], tap[3]};
    visit(place(x, from), place(w, weight));
  });
}

}  // namespace

Tensor64 evaluate_tensors(const operators::Conv3d& o, const ReferenceInputs& in) {
  const Tensor64 &x = *in[0], &w = *in[1];
  Tensor64 y = empty_tensor(inferred_shape(o, in));
  std::size_t to = 0;
  for_indices(y.shape, [&](const Extents64& index) {
    double sum = 0, sizes = 0;
    std::int64_t terms = 0;
    for_taps(o, y.shape, x.shape, w.shape, index, [&](std::size_t at, std::size_t weight) {
      const double term = x.value[at] * w.value[weight];
      sum += term, sizes += std::abs(term), ++terms;
    });
    if (in.size() > 2) sum += in[2]->value[static_cast<std::size_t>(index[1])];
    y.value[to] = sum;
    const double bound = f32_roundoff * (std::sqrt(static_cast<double>(terms)) * sizes + std::abs(sum));
    y.bound[to++] = bound_within(bound, sum, sizes, x.dtype);
  });
  return y;
}

Tensor64 evaluate_tensors(const operators::FilterGradient& o, const ReferenceInputs& in) {
  const Tensor64 &x = *in[0], &g = *in[1];
  Tensor64 y = empty_tensor(inferred_shape(o, in));
  const std::int64_t inputs = y.shape[1], outputs = y.shape[0] / o.groups;
  std::size_t to = 0;
  for_indices(y.shape, [&](const Extents64& index) {
    double sum = 0, sizes = 0;
    std::int64_t terms = 0;
    for_indices({g.shape[0], g.shape[2], g.shape[3]}, [&](const Extents64& at) {  // image, row, column of g
      const std::int64_t h = at[1] * o.stride.h + index[2] * o.dilation.h - o.pad.top;
      const std::int64_t w = at[2] * o.stride.w + index[3] * o.dilation.w - o.pad.left;
      if (h < 0 || w < 0 || h >= x.shape[2] || w >= x.shape[3]) return;
      const std::int64_t channel = index[0] / outputs * inputs + index[1];
      const double term =
          x.value[place(x.shape, {at[0], channel, h, w})] * g.value[place(g.shape, {at[0], index[0], at[1], at[2]})];
      sum += term, sizes += std::abs(term), ++terms;
    });
    y.value[to] = sum;
    y.bound[to++] = bound_within(f32_roundoff * std::sqrt(static_cast<double>(terms)) * sizes, sum, sizes, x.dtype);
  });
  return y;
}

Tensor64 evaluate_tensors(const operators::PoolNd& o, const ReferenceInputs& in) {
  const Tensor64& x = *in[0];
  const std::size_t axes = x.shape.size() - 2;
  Tensor64 y = empty_tensor(inferred_shape(o, in));
  std::size_t to = 0;
  for_indices(y.shape, [&](const Extents64& index) {
    double sum = 0, sizes = 0, best = -std::numeric_limits<double>::infinity();
    std::int64_t inside = 0, padded = 0, picked = -1;
    for_indices(o.kernel, [&](const Extents64& tap) {
      Extents64 at{index[0], index[1]};
      bool in_image = true, in_padding = true;
      for (std::size_t d = 0; d < axes; ++d) {
        const std::int64_t i = index[d + 2] * o.stride[d] - o.before[d] + tap[d] * o.dilation[d];
        in_image = in_image && i >= 0 && i < x.shape[d + 2];
        in_padding = in_padding && i < x.shape[d + 2] + o.after[d];
        at.push_back(i);
      }
      padded += in_padding ? 1 : 0;
      if (!in_image) return;
      const double value = x.value[place(x.shape, at)];
      ++inside, sum += value, sizes += std::abs(value);
      if (picked >= 0 && !(value > best)) return;
      best = value;
      picked = static_cast<std::int64_t>(place(x.shape, at));
      if (!o.column_major) return;
      picked = at[0] * x.shape[1] + at[1];  // then the first axis of the image is the fastest
      for (std::size_t d = axes; d-- > 0;) picked = picked * x.shape[d + 2] + at[d + 2];
    });
    const auto count = static_cast<double>(o.count_pad ? padded : inside);
    y.value[to] = o.indices ? static_cast<double>(picked) : o.average ? sum / count : best;
    if (o.average) {
      const double bound = f32_roundoff * (std::sqrt(count) * sizes / count + std::abs(sum / count));
      y.bound[to] = bound_within(bound, sum / count, sizes, x.dtype);
    }
    ++to;
  });
  return y;
}

}  // namespace unisono::float64
