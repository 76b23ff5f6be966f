#include "reference/pooling.hpp"

#include <fmt/format.h>

#include <cmath>

#include "reference/fold.hpp"
#include "reference/image.hpp"
#include "unisono/error.hpp"

namespace unisono::reference {

namespace {

void check(const char* field, std::int64_t value, std::int64_t lowest) {
  if (value < lowest || value > (std::int64_t{1} << 31))
    throw UserError(fmt::format("pooling was given {} = {}; expected {} to 2^31", field, value, lowest));
}

std::int64_t pooled_extent(const Pool2d& p, int d, std::int64_t extent) {
  const std::int64_t before = p.pad[d], after = p.pad[d + 2], stride = p.stride[d];
  const std::int64_t room = extent + before + after - p.dilation[d] * (p.kernel[d] - 1) - 1;
  if (room < 0) return 0;
  std::int64_t windows = (p.ceil_mode ? (room + stride - 1) / stride : room / stride) + 1;
  if (p.ceil_mode && (windows - 1) * stride >= extent + before) --windows;
  return windows;
}

// The taps of one window along one dimension
struct WindowTaps {
  std::int64_t first = 0, count = 0;  // inside the image: from `first`, `dilation` apart
  std::int64_t padded = 0;            // inside the padded image
};

WindowTaps taps_of(const Pool2d& p, int d, std::int64_t extent, std::int64_t window) {
  WindowTaps t;
  for (std::int64_t k = 0; k < p.kernel[d]; ++k) {
    const std::int64_t at = window * p.stride[d] - p.pad[d] + k * p.dilation[d];
    if (at < extent + p.pad[d + 2]) ++t.padded;
    if (at < 0 || at >= extent) continue;
    if (t.count++ == 0) t.first = at;
  }
  return t;
}

struct Window {
  WindowTaps y, x;
  std::int64_t step_y, step_x;
  std::int64_t b, c;

  template <class F>
  void each(const Image& image, F f) const {
    for (std::int64_t i = 0; i < y.count; ++i)
      for (std::int64_t j = 0; j < x.count; ++j) f(image.pixel(b, y.first + i * step_y, x.first + j * step_x)[c]);
  }
};

V largest(const Image& image, const Window& window) {
  double best = -infinity;
  window.each(image, [&](double v) { best = std::isnan(v) || std::isnan(best) ? NAN : std::max(best, v); });
  return {best, 0};
}

V average(const Image& image, const Window& window, bool count_pad, const Arithmetic& a) {
  Sum sum;
  double magnitude = 0;
  window.each(image, [&](double v) {
    sum.add(v);
    magnitude += std::abs(v);
  });
  const auto inside = static_cast<double>(window.y.count * window.x.count);
  const double divisor = count_pad ? static_cast<double>(window.y.padded * window.x.padded) : inside;
  return a.with_error(sum.value() / divisor, 0, a.chain(inside + 1) * magnitude / divisor);
}

}  // namespace

std::array<std::int64_t, 2> pooled_size(const Pool2d& p, std::int64_t h, std::int64_t w) {
  for (int d = 0; d < 2; ++d) {
    check("kernel", p.kernel[d], 1);
    check("stride", p.stride[d], 1);
    check("dilation", p.dilation[d], 1);
  }
  for (const auto pad : p.pad) check("pad", pad, 0);
  const std::array<std::int64_t, 2> size{pooled_extent(p, 0, h), pooled_extent(p, 1, w)};
  if (size[0] < 1 || size[1] < 1)
    throw UserError(
        fmt::format("pooling of {}x{} pixels with a {}x{} kernel has no output; the kernel does not fit the "
                    "padded image",
                    h, w, p.kernel[0], p.kernel[1]));
  return size;
}

Values pool(const Pool2d& p, const ConstTensorView& x, const ErrorModel& model) {
  const Image image = read_image(x, p.layout, "pooling");
  const auto [rows, cols] = pooled_size(p, image.h, image.w);
  const Arithmetic a(DType::f32, model);
  Values r{axes::mn, {}, {}};
  r.value.reserve(static_cast<std::size_t>(image.n * rows * cols * image.c));
  r.bound.reserve(r.value.capacity());
  for (std::int64_t b = 0; b < image.n; ++b)
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < cols; ++j) {
        Window window{taps_of(p, 0, image.h, i), taps_of(p, 1, image.w, j), p.dilation[0], p.dilation[1], b, 0};
        if (window.y.count * window.x.count == 0)
          throw UserError(
              fmt::format("pooling: the window of output ({}, {}) holds no pixel of the {}x{} image; pad less", i, j,
                          image.h, image.w));
        for (window.c = 0; window.c < image.c; ++window.c) {
          const V v = p.kind == Pool2d::Kind::max ? largest(image, window) : average(image, window, p.count_pad, a);
          r.value.push_back(v.v);
          r.bound.push_back(v.e);
        }
      }
  return r;
}

}  // namespace unisono::reference
