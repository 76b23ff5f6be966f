#include "runtime/cpu/ops/resize.hpp"

#include <algorithm>

namespace unisono::cpu {

namespace {

void nearest_row(const AxisTable& columns, const float* in, std::int64_t in_stride, float* out, const Image<float>& y) {
  for (std::int64_t q = 0; q < y.width; ++q)
    std::copy_n(in + columns.low[static_cast<std::size_t>(q)] * in_stride, y.channels, out + q * y.pixel_stride);
}

void linear_row(const AxisTable& columns, const float* top, const float* bottom, float down, std::int64_t in_stride,
                float* out, const Image<float>& y) {
  for (std::int64_t q = 0; q < y.width; ++q) {
    const auto i = static_cast<std::size_t>(q);
    const std::int64_t left = columns.low[i] * in_stride, right = columns.high[i] * in_stride;
    const float across = columns.weight[i];
    // one rounding each for the four weights, three for the sum
    const float w00 = (1 - down) * (1 - across), w01 = (1 - down) * across, w10 = down * (1 - across),
                w11 = down * across;
    float* pixel = out + q * y.pixel_stride;
    for (std::int64_t c = 0; c < y.channels; ++c)
      pixel[c] = w00 * top[left + c] + w01 * top[right + c] + (w10 * bottom[left + c] + w11 * bottom[right + c]);
  }
}

}  // namespace

void resize(const AxisTable& rows, const AxisTable& columns, const Image<const float>& x, const Image<float>& y,
            const Parallel& parallel) {
  parallel(y.images * y.height, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t n = row / y.height, p = row % y.height;
      const auto i = static_cast<std::size_t>(p);
      const float* top = x.pixel(n, rows.low[i], 0);
      float* out = y.pixel(n, p, 0);
      if (rows.weight.empty()) {
        nearest_row(columns, top, x.pixel_stride, out, y);
      } else {
        linear_row(columns, top, x.pixel(n, rows.high[i], 0), rows.weight[i], x.pixel_stride, out, y);
      }
    }
  });
}

}  // namespace unisono::cpu
