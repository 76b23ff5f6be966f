#include "reference/resampled.hpp"

#include <algorithm>
#include <cmath>

#include "support/float_convert.hpp"

namespace unisono::reference {

namespace {

using Sizes = std::vector<std::int64_t>;

double pixel(const ConstTensorView& t, std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t c) {
  const Sizes& s = t.strides;
  const std::int64_t at =
      s.empty() ? ((n * t.shape[1] + h) * t.shape[2] + w) * t.shape[3] + c : n * s[0] + h * s[1] + w * s[2] + c * s[3];
  return support::load(t.data, at, t.dtype);
}

// Calls f(index, n, h, w, c) for each element until it gives true; then the index
template <class F>
std::optional<std::int64_t> find_element(const Sizes& s, F&& f) {
  std::int64_t i = 0;
  for (std::int64_t n = 0; n < s[0]; ++n)
    for (std::int64_t h = 0; h < s[1]; ++h)
      for (std::int64_t w = 0; w < s[2]; ++w)
        for (std::int64_t c = 0; c < s[3]; ++c, ++i)
          if (f(i, n, h, w, c)) return i;
  return std::nullopt;
}

}  // namespace

Values resampled(const Values& image, StoreForm form, const Extents& e) {
  if (form == StoreForm::whole) return image;
  const bool pool = form == StoreForm::max_pool_2x2;
  const std::int64_t height = pool ? e.height / 2 : 2 * e.height, width = pool ? e.width / 2 : 2 * e.width;
  Values r{.axes = image.axes, .value = {}, .bound = {}};
  const auto element = [&](std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t c) {
    return static_cast<std::size_t>(((n * e.height + h) * e.width + w) * e.cols + c);
  };
  find_element({e.images, height, width, e.cols}, [&](auto, auto n, auto h, auto w, auto c) {
    std::vector<std::size_t> from{pool ? element(n, 2 * h, 2 * w, c) : element(n, h / 2, w / 2, c)};
    if (pool) {
      from.insert(from.end(), {element(n, 2 * h, 2 * w + 1, c), element(n, 2 * h + 1, 2 * w, c),
                               element(n, 2 * h + 1, 2 * w + 1, c)});
    }
    double value = image.value[from[0]], bound = 0;
    for (const std::size_t i : from) {
      if (image.value[i] > value || std::isnan(image.value[i])) value = image.value[i];
      bound = std::max(bound, image.bound.empty() ? 0 : image.bound[i]);  // the largest is off by no more
    }
    r.value.push_back(value);
    if (!image.bound.empty()) r.bound.push_back(bound);
    return false;
  });
  return r;
}

Sizes pooled_shape(const Sizes& image) { return {image[0], image[1] / 2, image[2] / 2, image[3]}; }
Sizes upsampled_shape(const Sizes& image) { return {image[0], image[1] * 2, image[2] * 2, image[3]}; }

std::vector<std::byte> shrunk(const ConstTensorView& upsampled) {
  const Sizes& s = upsampled.shape;
  const Sizes small{s[0], s[1] / 2, s[2] / 2, s[3]};
  std::vector<std::byte> image(static_cast<std::size_t>(element_count(small)) * size_of(upsampled.dtype));
  find_element(small, [&](auto i, auto n, auto h, auto w, auto c) {
    support::store(image.data(), i, upsampled.dtype, pixel(upsampled, n, 2 * h, 2 * w, c));
    return false;
  });
  return image;
}

std::optional<std::int64_t> first_other(const ConstTensorView& image, const ConstTensorView& made) {
  const bool upsampled = made.shape == upsampled_shape(image.shape);
  return find_element(made.shape, [&](std::int64_t i, auto n, auto h, auto w, auto c) {
    const auto at = [&](std::int64_t y, std::int64_t x) { return pixel(image, n, y, x, c); };
    const double expected = upsampled ? at(h / 2, w / 2)
                                      : std::max(std::max(at(2 * h, 2 * w), at(2 * h, 2 * w + 1)),
                                                 std::max(at(2 * h + 1, 2 * w), at(2 * h + 1, 2 * w + 1)));
    return support::load(made.data, i, made.dtype) != expected;  // NaN is never right
  });
}

}  // namespace unisono::reference
