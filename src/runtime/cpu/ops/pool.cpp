#include "runtime/cpu/ops/pool.hpp"

#include <algorithm>

#include "runtime/cpu/vector/unit.hpp"

namespace unisono::cpu {

namespace {

// Taps [first, last) of one axis whose pixel start + tap·dilation lies in [0, extent)
struct Taps {
  std::int64_t first, last;
};

Taps taps_inside(std::int64_t start, std::int64_t kernel, std::int64_t dilation, std::int64_t low, std::int64_t high) {
  const std::int64_t first = start >= low ? 0 : (low - start + dilation - 1) / dilation;
  const std::int64_t last = start >= high ? 0 : (high - start + dilation - 1) / dilation;
  return {std::min(first, kernel), std::clamp(last, std::min(first, kernel), kernel)};
}

std::size_t taps_in(const Taps& t) { return static_cast<std::size_t>(std::max<std::int64_t>(t.last - t.first, 0)); }

// Calls visit(window, row taps, column taps, first row, first column) for output rows [begin, end) of all images; the
// window holds the pixels inside the image
template <class Visit>
void for_windows(const PoolWindow& f, const Image<const float>& x, const Image<float>& y, std::int64_t begin,
                 std::int64_t end, const Visit& visit) {
  WindowArgs window;
  window.row_pitch = f.dilation[0] * x.width * x.pixel_stride;
  window.col_pitch = f.dilation[1] * x.pixel_stride;
  window.channels = static_cast<std::size_t>(y.channels);
  for (std::int64_t row = begin; row < end; ++row) {
    const std::int64_t n = row / y.height, p = row % y.height;
    const std::int64_t h = p * f.stride[0] - f.pad[0];
    const Taps rows = taps_inside(h, f.kernel[0], f.dilation[0], 0, x.height);
    window.rows = taps_in(rows);
    for (std::int64_t q = 0; q < y.width; ++q) {
      const std::int64_t w = q * f.stride[1] - f.pad[1];
      const Taps cols = taps_inside(w, f.kernel[1], f.dilation[1], 0, x.width);
      window.cols = taps_in(cols);
      // a window of padding alone has no first pixel
      const bool empty = window.rows == 0 || window.cols == 0;
      window.first = empty ? x.data : x.pixel(n, h + rows.first * f.dilation[0], w + cols.first * f.dilation[1]);
      window.result = y.pixel(n, p, q);
      visit(window, h, w);
    }
  }
}

}  // namespace

void max_pool(const PoolWindow& f, const Image<const float>& x, const Image<float>& y, const Parallel& parallel) {
  const VectorUnit& unit = vector_unit();
  parallel(y.images * y.height, [&](std::int64_t begin, std::int64_t end) {
    for_windows(f, x, y, begin, end,
                [&](const WindowArgs& window, std::int64_t, std::int64_t) { unit.window_largest(window); });
  });
}

void average_pool(const PoolWindow& f, const Image<const float>& x, const Image<float>& y, const Parallel& parallel) {
  const VectorUnit& unit = vector_unit();
  parallel(y.images * y.height, [&](std::int64_t begin, std::int64_t end) {
    for_windows(f, x, y, begin, end, [&](WindowArgs& window, std::int64_t h, std::int64_t w) {
      std::size_t count = window.rows * window.cols;
      if (f.count_pad)
        count = taps_in(taps_inside(h, f.kernel[0], f.dilation[0], -f.pad[0], x.height + f.pad[2])) *
                taps_in(taps_inside(w, f.kernel[1], f.dilation[1], -f.pad[1], x.width + f.pad[3]));
      window.divisor = static_cast<double>(count);
      unit.window_mean(window);
    });
  });
}

void global_average_pool(const Image<const float>& x, const Image<float>& y, const Parallel& parallel) {
  // a task: 64 channels of an image
  constexpr std::int64_t some = 64;
  const std::int64_t parts = (x.channels + some - 1) / some;
  const VectorUnit& unit = vector_unit();
  parallel(x.images * parts, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t n = task / parts, channel = task % parts * some;
      WindowArgs window;
      window.first = x.pixel(n, 0, 0) + channel;
      window.rows = 1;
      window.cols = static_cast<std::size_t>(x.height * x.width);
      window.col_pitch = x.pixel_stride;
      window.channels = static_cast<std::size_t>(std::min(some, x.channels - channel));
      window.divisor = static_cast<double>(x.height * x.width);
      window.result = y.pixel(n, 0, 0) + channel;
      unit.window_mean(window);
    }
  });
}

}  // namespace unisono::cpu
