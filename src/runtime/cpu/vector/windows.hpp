// Windows of pixels, channels last: the largest value or the mean of each channel.
#pragma once

#include "functions.hpp"
#include "unit.hpp"

namespace UNISONO_UNIT {

namespace {

using unisono::cpu::WindowArgs;

// Calls f(pointer to the channels of a pixel) for each pixel of the window
template <class Body>
inline void for_pixels(const WindowArgs& w, const float* first, Body body) {
  for (size_t r = 0; r < w.rows; ++r, first += w.row_pitch) {
    const float* pixel = first;
    for (size_t c = 0; c < w.cols; ++c, pixel += w.col_pitch) body(pixel);
  }
}

// `n` channels, at most count·lanes, all of them but in the last vector
template <size_t count>
inline void largest_of(const WindowArgs& w, size_t channel, size_t n) {
  constexpr size_t lanes = lanes_of<F>;
  const size_t last = n - (count - 1) * lanes;
  F best[count];
  for (F& x : best) x = splat<F>(-__builtin_inf());
  for_pixels(w, w.first + channel, [&](const float* pixel) {
    for (size_t k = 0; k + 1 < count; ++k) best[k] = larger(best[k], load<F>(pixel + k * lanes));
    best[count - 1] = larger(best[count - 1], load_upto<F>(pixel + (count - 1) * lanes, last));
  });
  for (size_t k = 0; k + 1 < count; ++k) store<F>(w.result + channel + k * lanes, best[k]);
  store_upto<F>(w.result + channel + (count - 1) * lanes, best[count - 1], last);
}

// Sums in double lanes, half a vector of floats at a time
template <size_t count>
inline void mean_of(const WindowArgs& w, size_t channel) {
  constexpr size_t lanes = lanes_of<D>;
  D sum[count] = {};
  for_pixels(w, w.first + channel, [&](const float* pixel) {
    for (size_t k = 0; k < count; ++k) {
      Fhalf x;
      __builtin_memcpy(&x, pixel + k * lanes, sizeof x);
      sum[k] += __builtin_convertvector(x, D);
    }
  });
  for (size_t k = 0; k < count; ++k) {
    const Fhalf y = __builtin_convertvector(sum[k] / splat<D>(w.divisor), Fhalf);
    __builtin_memcpy(w.result + channel + k * lanes, &y, sizeof y);
  }
}

void window_largest(const WindowArgs& w) {
  constexpr size_t lanes = lanes_of<F>;
  size_t c = 0;
  for (; c + 4 * lanes <= w.channels; c += 4 * lanes) largest_of<4>(w, c, 4 * lanes);
  // a last vector of fewer channels goes over some of the vector before it once more
  for (; c + lanes <= w.channels; c += lanes) largest_of<1>(w, c, lanes);
  if (c == w.channels) return;
  if (c > 0)
    largest_of<1>(w, w.channels - lanes, lanes);
  else
    largest_of<1>(w, 0, w.channels);
}

void window_mean(const WindowArgs& w) {
  constexpr size_t lanes = lanes_of<D>;
  size_t c = 0;
  for (; c + 8 * lanes <= w.channels; c += 8 * lanes) mean_of<8>(w, c);
  for (; c + lanes <= w.channels; c += lanes) mean_of<1>(w, c);
  if (c == w.channels) return;
  if (c > 0) return mean_of<1>(w, w.channels - lanes);
  for (; c < w.channels; ++c) {
    double sum = 0;
    for_pixels(w, w.first + c, [&](const float* pixel) { sum += static_cast<double>(*pixel); });
    w.result[c] = static_cast<float>(sum / w.divisor);
  }
}

}  // namespace

}  // namespace UNISONO_UNIT
