#pragma once
/// Convolutions of volumes as sums of convolutions of planes.

#include <algorithm>
#include <cstdint>
#include <optional>

#include "runtime/cpu/tiling.hpp"
#include "unisono/contraction.hpp"

namespace unisono::cpu {

/// A volume's result is, plane by plane, the sum of convolutions of its planes by the planes of the filter, its taps.
/// An image is one plane.
struct Taps {
  std::int64_t count = 1, stride = 1, before = 0, dilation = 1;
  std::int64_t planes = 1;  ///< planes of the image that is read
  std::int64_t rows = 0;    ///< rows of a plane of the result

  /// The plane that a tap reads; none: zeros.
  std::optional<std::int64_t> plane(std::int64_t of_result, std::int64_t tap) const {
    const std::int64_t i = of_result * stride + tap * dilation - before;
    return i >= 0 && i < planes ? std::optional(i) : std::nullopt;
  }
};

Taps taps_of(const Conv3d& c, const Extents& e);
template <class C>
Taps taps_of(const C&, const Extents& e) {
  return {.rows = e.height};
}

/// The convolution of a plane by one of the filter.
Conv2d in_plane(const Conv3d& c);
template <class C>
C in_plane(const C& c) {
  return c;
}

/// Rows of one plane of a strip.
struct Piece {
  std::int64_t plane = 0;
  Strip rows;
};

/// Calls f(Piece) for each plane of a strip. `rows`: Taps::rows.
template <class F>
void for_pieces(const Strip& strip, std::int64_t rows, F&& f) {
  for (std::int64_t at = strip.first, end = strip.first + strip.height; at < end;) {
    const std::int64_t height = std::min(end - at, rows - at % rows);
    f(Piece{at / rows, {strip.image, at % rows, height}});
    at += height;
  }
}

}  // namespace unisono::cpu
