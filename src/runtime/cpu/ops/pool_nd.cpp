#include "runtime/cpu/ops/pool_nd.hpp"

#include <algorithm>

namespace unisono::cpu {

namespace {

// A window by axis: where it begins, the taps inside x, and the one that is visited
struct PlacedWindow {
  explicit PlacedWindow(std::size_t axes) : start(axes), first(axes), count(axes), at(axes), tap(axes) {}
  Extents64 start, first, count, at, tap;
};

// Calls visit(out offset, image, channel, window) for each output element
template <class F>
void for_outputs(const WindowNd& f, const Strided& y, const Parallel& parallel, F visit) {
  parallel(count_of(y.shape), [&](std::int64_t begin, std::int64_t end) {
    PlacedWindow window(f.kernel.size());
    for (std::int64_t n = begin; n < end; ++n) {
      std::int64_t number = n, offset = 0;
      for (std::size_t i = y.shape.size(); i-- > 2;) {
        const std::int64_t k = number % y.shape[i];
        number /= y.shape[i];
        offset += k * y.strides[i];
        window.start[i - 2] = k * f.stride[i - 2] - f.before[i - 2];
      }
      const std::int64_t image = number / y.shape[1], channel = number % y.shape[1];
      visit(offset + image * y.strides[0] + channel * y.strides[1], image, channel, window);
    }
  });
}

// The first tap of an axis that does not lie before `low`, of none the number of taps
std::int64_t tap_from(std::int64_t start, std::int64_t low, std::int64_t dilation, std::int64_t taps) {
  return start >= low ? 0 : std::min((low - start + dilation - 1) / dilation, taps);
}

// Calls visit(place by axis) for each tap of the window that lies inside x. Taps in the padding cost nothing: a window
// may be far larger than x.
template <class F>
void for_taps(const WindowNd& f, PlacedWindow& w, const Extents64& shape, F visit) {
  const std::size_t axes = w.start.size();
  for (std::size_t i = 0; i < axes; ++i) {
    const std::int64_t outside = tap_from(w.start[i], 0, f.dilation[i], f.kernel[i]);
    w.first[i] = w.at[i] = w.start[i] + outside * f.dilation[i], w.tap[i] = 0;
    w.count[i] = tap_from(w.start[i], shape[i + 2], f.dilation[i], f.kernel[i]) - outside;
    if (w.count[i] <= 0) return;
  }
  for (;;) {
    visit(w.at);
    std::size_t i = axes;
    for (; i > 0; --i) {  // the last axis first
      if (++w.tap[i - 1] < w.count[i - 1]) break;
      w.tap[i - 1] = 0, w.at[i - 1] = w.first[i - 1];
    }
    if (i == 0) return;
    w.at[i - 1] += f.dilation[i - 1];
  }
}

std::int64_t offset_of(const Strided& x, std::int64_t image, std::int64_t channel, const Extents64& at) {
  std::int64_t offset = image * x.strides[0] + channel * x.strides[1];
  for (std::size_t i = 0; i < at.size(); ++i) offset += at[i] * x.strides[i + 2];
  return offset;
}

// Taps inside image and padding; a number as large as the window may be
double padded_taps(const WindowNd& f, const Extents64& start, const Extents64& shape) {
  double count = 1;
  for (std::size_t i = 0; i < start.size(); ++i)
    count *= static_cast<double>(tap_from(start[i], shape[i + 2] + f.after[i], f.dilation[i], f.kernel[i]));
  return count;
}

}  // namespace

void average_pool_nd(const WindowNd& f, const Strided& x, const Strided& y, const Parallel& parallel) {
  const auto* in = static_cast<const float*>(x.data);
  auto* out = static_cast<float*>(y.data);
  for_outputs(f, y, parallel, [&](std::int64_t to, std::int64_t image, std::int64_t channel, PlacedWindow& window) {
    double sum = 0, count = 0;
    for_taps(f, window, x.shape, [&](const Extents64& at) {
      sum += in[offset_of(x, image, channel, at)];
      ++count;
    });
    if (f.count_pad) count = padded_taps(f, window.start, x.shape);
    out[to] = static_cast<float>(sum / count);
  });
}

void max_pool_nd(const WindowNd& f, const Strided& x, const Strided& y, const Parallel& parallel) {
  const auto* in = static_cast<const float*>(x.data);
  auto* out = static_cast<float*>(y.data);
  for_outputs(f, y, parallel, [&](std::int64_t to, std::int64_t image, std::int64_t channel, PlacedWindow& window) {
    float best = -__builtin_inff();
    for_taps(f, window, x.shape, [&](const Extents64& at) {
      const float v = in[offset_of(x, image, channel, at)];
      best = best != best || v <= best ? best : v;
    });
    out[to] = best;
  });
}

void max_pool_indices(const WindowNd& f, bool column_major, const Strided& x, const Strided& y,
                      const Parallel& parallel) {
  const auto* in = static_cast<const float*>(x.data);
  auto* out = static_cast<std::int64_t*>(y.data);
  Extents64 spatial(x.shape.begin() + 2, x.shape.end());
  Extents64 steps = dense_strides(spatial);
  if (column_major)
    for (std::size_t i = 0; i < steps.size(); ++i) steps[i] = i == 0 ? 1 : steps[i - 1] * spatial[i - 1];
  for_outputs(f, y, parallel, [&](std::int64_t to, std::int64_t image, std::int64_t channel, PlacedWindow& window) {
    float best = -__builtin_inff();
    std::int64_t place = -1;
    for_taps(f, window, x.shape, [&](const Extents64& at) {
      const float v = in[offset_of(x, image, channel, at)];
      if (place >= 0 && (best != best || v <= best)) return;
      best = v;
      place = (image * x.shape[1] + channel) * count_of(spatial);
      for (std::size_t i = 0; i < at.size(); ++i) place += at[i] * steps[i];
    });
    out[to] = place;
  });
}

}  // namespace unisono::cpu
