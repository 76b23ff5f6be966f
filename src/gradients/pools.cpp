/// Pooling.

#include <algorithm>
#include <span>
#include <utility>

#include "gradients/derivative.hpp"
#include "gradients/values.hpp"

namespace unisono::autodiff {

namespace {

// A pooling of images in one form
struct Windows {
  bool average, ceil_mode, count_pad;
  Extents64 kernel, stride, dilation, before, after;

  operators::PoolNd places() const {
    return {.kernel = kernel,
            .stride = stride,
            .dilation = dilation,
            .before = before,
            .after = after,
            .ceil_mode = ceil_mode,
            .indices = true};
  }
};

// Windows of two axes, side by side, that leave out at most what is behind the last
bool are_disjoint(const Windows& w) {
  return w.kernel.size() == 2 && w.stride == w.kernel && w.dilation == Extents64{1, 1} && w.before == Extents64{0, 0} &&
         w.after == Extents64{0, 0};
}

NetworkValue integers(NetworkBuilder& net, const Shape& shape, const std::vector<std::int64_t>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return net.constant("places", shape, DType::i64, {bytes.begin(), bytes.end()});
}

// By element, without a scatter: whether the window that it is in has its place. x (N,C,H,W), windows (N,C,P,Q)
NetworkValue of_largest_of_disjoint(const Windows& w, const Use& use, NetworkValue places) {
  const Extents64 x = extents_of(use.in[0]), y = extents_of(use.out);
  const std::int64_t n = x[0], c = x[1], p = y[2], q = y[3], rows = w.kernel[0], columns = w.kernel[1];
  std::vector<std::int64_t> firsts, within;  // of a channel's plane; of an element in its plane
  for (std::int64_t i = 0; i < n * c; ++i) firsts.push_back(i * x[2] * x[3]);
  for (std::int64_t h = 0; h < p * rows; ++h)
    for (std::int64_t v = 0; v < q * columns; ++v) within.push_back(h * x[3] + v);
  const NetworkValue largest =
      mapped(MapOp::sub, {places, integers(use.net, {Dim(n), Dim(c), Dim(1), Dim(1)}, firsts)});
  const NetworkValue own = integers(use.net, {Dim(1), Dim(1), Dim(p), Dim(rows), Dim(q), Dim(columns)}, within);
  const Extents64 windows{n, c, p, 1, q, 1};
  const NetworkValue is_largest = mapped(MapOp::equal, {shaped(largest, windows), own});
  const NetworkValue chosen = mapped(MapOp::select, {is_largest, shaped(use.gradient, windows), use.net.constant(0.0)});
  const NetworkValue covered = shaped(chosen, {n, c, p * rows, q * columns});
  const std::int64_t below = x[2] - p * rows, beside = x[3] - q * columns;
  return below == 0 && beside == 0 ? covered : pad(covered, {0, 0, 0, 0}, {0, 0, below, beside});
}

// Each window's gradient goes to its largest element, of equal ones the first
NetworkValue of_largest(const Windows& w, const Use& use) {
  const NetworkValue x = use.in[0];
  const std::int64_t count = elements_of(extents_of(x)), windows = elements_of(extents_of(use.out));
  const NetworkValue places = use.net.apply(w.places(), {x});
  const Extents64 all = extents_of(x), made = extents_of(use.out);
  if (are_disjoint(w) && made[2] * w.kernel[0] <= all[2] && made[3] * w.kernel[1] <= all[3])
    return of_largest_of_disjoint(w, use, places);
  const NetworkValue sums =
      use.net.apply(operators::ScatterElements{.axis = 0, .reduction = ScatterReduction::add},
                    {zeros(use.net, {count}), shaped(places, {windows}), shaped(use.gradient, {windows})});
  return shaped(sums, all);
}

// Elements that each window averages along one axis of `extent` elements
std::vector<double> window_sizes(const Windows& w, std::size_t axis, std::int64_t extent, std::int64_t windows) {
  std::vector<double> sizes;
  for (std::int64_t p = 0; p < windows; ++p) {
    int taps = 0;
    for (std::int64_t t = 0; t < w.kernel[axis]; ++t) {
      const std::int64_t at = p * w.stride[axis] - w.before[axis] + t * w.dilation[axis];
      taps += (w.count_pad ? at < extent + w.after[axis] : at >= 0 && at < extent) ? 1 : 0;
    }
    sizes.push_back(taps);
  }
  return sizes;
}

// (1,1,…): those of the windows over all axes
NetworkValue sizes_of_windows(const Windows& w, const Use& use) {
  const Extents64 x = extents_of(use.in[0]), y = extents_of(use.out);
  Shape shape{1, 1};
  std::vector<double> sizes{1};
  for (std::size_t axis = 0; axis < w.kernel.size(); ++axis) {
    std::vector<double> more;
    for (const double outer : sizes)
      for (const double one : window_sizes(w, axis, x[axis + 2], y[axis + 2])) more.push_back(outer * one);
    sizes = std::move(more);
    shape.emplace_back(y[axis + 2]);
  }
  return use.net.constant("sizes", shape, std::vector<float>(sizes.begin(), sizes.end()));
}

// Along an axis: 1 where a window reads an element
std::vector<float> reads_of_windows(const Windows& w, std::size_t axis, std::int64_t extent, std::int64_t windows) {
  std::vector<float> reads(static_cast<std::size_t>(windows * extent), 0.0f);
  for (std::int64_t p = 0; p < windows; ++p)
    for (std::int64_t t = 0; t < w.kernel[axis]; ++t) {
      const std::int64_t at = p * w.stride[axis] - w.before[axis] + t * w.dilation[axis];
      if (at >= 0 && at < extent) reads[static_cast<std::size_t>(p * extent + at)] += 1;
    }
  return reads;
}

NetworkValue of_average(const Windows& w, const Use& use) {
  const Extents64 x = extents_of(use.in[0]), y = extents_of(use.out);
  NetworkValue g = use.gradient / sizes_of_windows(w, use);
  for (std::size_t axis = w.kernel.size(); axis-- > 0;)
    g = multiplied_along(g, axis + 2, reads_of_windows(w, axis, x[axis + 2], y[axis + 2]), x[axis + 2]);
  return g;
}

InputGradients of_windows(const Windows& w, const Use& use) {
  return {w.average ? of_average(w, use) : of_largest(w, use)};
}

}  // namespace

InputGradients derivative_of(const operators::Pool2d& p, const Use& use) {
  return of_windows({p.average,
                     p.ceil_mode,
                     p.count_pad,
                     {p.kernel.h, p.kernel.w},
                     {p.stride.h, p.stride.w},
                     {p.dilation.h, p.dilation.w},
                     {p.pad.top, p.pad.left},
                     {p.pad.bottom, p.pad.right}},
                    use);
}

InputGradients derivative_of(const operators::PoolNd& p, const Use& use) {
  return of_windows({p.average, p.ceil_mode, p.count_pad, p.kernel, p.stride, p.dilation, p.before, p.after}, use);
}

InputGradients derivative_of(const operators::GlobalAveragePool&, const Use& use) {
  const Extents64 x = extents_of(use.in[0]);
  return {repeated_as(use.gradient / static_cast<double>(x[2] * x[3]), use.in[0])};
}

}  // namespace unisono::autodiff
