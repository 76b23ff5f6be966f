#include "figure/resample.hpp"

#include <algorithm>
#include <cmath>

namespace unisono::figure {
namespace {

/// The input positions that one output position mixes.
struct Taps {
  std::int64_t first = 0;
  std::vector<float> weights;  // for positions first, first + 1, …; their sum is 1
};

std::vector<Taps> taps(std::int64_t from, std::int64_t to, Filter filter) {
  std::vector<Taps> result(static_cast<std::size_t>(to));
  const double step = static_cast<double>(from) / static_cast<double>(to);
  const double reach = std::max(1.0, step);  // half the width of the triangle
  for (std::int64_t i = 0; i < to; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * step - 0.5;
    Taps& t = result[static_cast<std::size_t>(i)];
    if (filter == Filter::nearest) {
      t = {std::clamp<std::int64_t>(std::llround(centre), 0, from - 1), {1.0f}};
      continue;
    }
    const auto low = static_cast<std::int64_t>(std::floor(centre - reach)) + 1;
    const auto high = static_cast<std::int64_t>(std::ceil(centre + reach)) - 1;
    t.first = std::clamp<std::int64_t>(low, 0, from - 1);
    t.weights.assign(static_cast<std::size_t>(std::clamp<std::int64_t>(high, 0, from - 1) - t.first + 1), 0.0f);
    double sum = 0;
    for (std::int64_t j = low; j <= high; ++j) sum += 1 - std::abs(static_cast<double>(j) - centre) / reach;
    for (std::int64_t j = low; j <= high; ++j) {  // what lies outside counts as the edge
      const double weight = (1 - std::abs(static_cast<double>(j) - centre) / reach) / sum;
      t.weights[static_cast<std::size_t>(std::clamp<std::int64_t>(j, 0, from - 1) - t.first)] +=
          static_cast<float>(weight);
    }
  }
  return result;
}

}  // namespace

std::vector<float> resample(std::span<const float> pixels, std::int64_t width, std::int64_t height, int channels,
                            std::int64_t new_width, std::int64_t new_height, Filter filter) {
  // rows first: (height, width) → (height, new_width) → (new_height, new_width)
  const auto across = taps(width, new_width, filter), down = taps(height, new_height, filter);
  std::vector<float> wide(static_cast<std::size_t>(height * new_width * channels));
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < new_width * channels; ++x) {
      const Taps& t = across[static_cast<std::size_t>(x / channels)];
      const float* from = pixels.data() + (y * width + t.first) * channels + x % channels;
      float sum = 0;
      for (std::size_t i = 0; i < t.weights.size(); ++i)
        sum += t.weights[i] * from[i * static_cast<std::size_t>(channels)];
      wide[static_cast<std::size_t>(y * new_width * channels + x)] = sum;
    }
  }
  std::vector<float> out(static_cast<std::size_t>(new_height * new_width * channels), 0.0f);
  const std::int64_t row = new_width * channels;
  for (std::int64_t y = 0; y < new_height; ++y) {
    const Taps& t = down[static_cast<std::size_t>(y)];
    for (std::size_t i = 0; i < t.weights.size(); ++i) {
      const float* from = wide.data() + (t.first + static_cast<std::int64_t>(i)) * row;
      for (std::int64_t x = 0; x < row; ++x) out[static_cast<std::size_t>(y * row + x)] += t.weights[i] * from[x];
    }
  }
  return out;
}

media::Image resample(const media::Image& image, std::int64_t new_width, std::int64_t new_height, Filter filter) {
  const std::vector<float> pixels(image.pixels.begin(), image.pixels.end());
  const auto scaled = resample(pixels, image.width, image.height, image.channels, new_width, new_height, filter);
  media::Image out{new_width, new_height, image.channels, std::vector<std::uint8_t>(scaled.size())};
  std::transform(scaled.begin(), scaled.end(), out.pixels.begin(),
                 [](float x) { return static_cast<std::uint8_t>(std::lround(std::clamp(x, 0.0f, 255.0f))); });
  return out;
}

}  // namespace unisono::figure
