#include "runtime/cpu/ops/pool.hpp"

#include <algorithm>
#include <vector>

namespace coda::cpu {

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

// Calls visit(y pixel, start row, start column, row taps, column taps) for output rows [begin, end) of all images
template <class Visit>
void for_windows(const PoolWindow& f, const Image<const float>& x, const Image<float>& y, std::int64_t begin,
                 std::int64_t end, const Visit& visit) {
  for (std::int64_t row = begin; row < end; ++row) {
    const std::int64_t n = row / y.height, p = row % y.height;
    const std::int64_t h = p * f.stride[0] - f.pad[0];
    const Taps rows = taps_inside(h, f.kernel[0], f.dilation[0], 0, x.height);
    for (std::int64_t q = 0; q < y.width; ++q) {
      const std::int64_t w = q * f.stride[1] - f.pad[1];
      visit(n, y.pixel(n, p, q), h, w, rows, taps_inside(w, f.kernel[1], f.dilation[1], 0, x.width));
    }
  }
}

}  // namespace

void max_pool(const PoolWindow& f, const Image<const float>& x, const Image<float>& y, const Parallel& parallel) {
  parallel(y.images * y.height, [&](std::int64_t begin, std::int64_t end) {
    for_windows(f, x, y, begin, end,
                [&](std::int64_t n, float* out, std::int64_t h, std::int64_t w, Taps rows, Taps cols) {
                  std::fill_n(out, y.channels, -__builtin_inff());
                  for (auto r = rows.first; r < rows.last; ++r)
                    for (auto s = cols.first; s < cols.last; ++s) {
                      const float* in = x.pixel(n, h + r * f.dilation[0], w + s * f.dilation[1]);
                      // "not (in <= out)" also takes a NaN; a NaN already taken stays, as every comparison with it
                      // fails
                      for (std::int64_t c = 0; c < y.channels; ++c)
                        out[c] = out[c] != out[c] || in[c] <= out[c] ? out[c] : in[c];
                    }
                });
  });
}

void average_pool(const PoolWindow& f, const Image<const float>& x, const Image<float>& y, const Parallel& parallel) {
  parallel(y.images * y.height, [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> sum(static_cast<std::size_t>(y.channels));
    for_windows(f, x, y, begin, end,
                [&](std::int64_t n, float* out, std::int64_t h, std::int64_t w, Taps rows, Taps cols) {
                  std::fill(sum.begin(), sum.end(), 0.0);
                  for (auto r = rows.first; r < rows.last; ++r)
                    for (auto s = cols.first; s < cols.last; ++s) {
                      const float* in = x.pixel(n, h + r * f.dilation[0], w + s * f.dilation[1]);
                      for (std::int64_t c = 0; c < y.channels; ++c) sum[static_cast<std::size_t>(c)] += in[c];
                    }
                  if (f.count_pad) {
                    rows = taps_inside(h, f.kernel[0], f.dilation[0], -f.pad[0], x.height + f.pad[2]);
                    cols = taps_inside(w, f.kernel[1], f.dilation[1], -f.pad[1], x.width + f.pad[3]);
                  }
                  const auto count = static_cast<double>((rows.last - rows.first) * (cols.last - cols.first));
                  for (std::int64_t c = 0; c < y.channels; ++c)
                    out[c] = static_cast<float>(sum[static_cast<std::size_t>(c)] / count);
                });
  });
}

void global_average_pool(const Image<const float>& x, const Image<float>& y, const Parallel& parallel) {
  parallel(x.images, [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> sum(static_cast<std::size_t>(x.channels));
    for (std::int64_t n = begin; n < end; ++n) {
      std::fill(sum.begin(), sum.end(), 0.0);
      for (std::int64_t i = 0; i < x.height * x.width; ++i) {
        const float* in = x.pixel(n, 0, 0) + i * x.pixel_stride;
        for (std::int64_t c = 0; c < x.channels; ++c) sum[static_cast<std::size_t>(c)] += in[c];
      }
      float* out = y.pixel(n, 0, 0);
      const auto count = static_cast<double>(x.height * x.width);
      for (std::int64_t c = 0; c < x.channels; ++c)
        out[c] = static_cast<float>(sum[static_cast<std::size_t>(c)] / count);
    }
  });
}

}  // namespace coda::cpu
