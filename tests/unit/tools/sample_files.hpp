#pragma once
/// PNG and JPEG files of every kind, made by libpng and libjpeg themselves.

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "media/image.hpp"

namespace unisono::tests {

using Bytes = std::vector<std::uint8_t>;

struct PngKind {
  int color_type = 2;  ///< of the PNG specification: 0 grey, 2 RGB, 3 palette, 4 grey and alpha, 6 RGB and alpha
  int bit_depth = 8;
  bool interlaced = false;
  std::optional<std::array<std::uint8_t, 3>> transparent =
      {};  ///< a colour (grey: the first); a palette: index of an entry
  std::vector<std::array<std::uint8_t, 3>> palette = {};
};

/// A PNG whose row y has the packed samples `row(y)`.
Bytes png_file(std::int64_t width, std::int64_t height, const PngKind& kind,
               const std::function<Bytes(std::int64_t)>& row);

struct JpegKind {
  int components = 3;  ///< 1 grey, 3 RGB, 4 CMYK
  bool progressive = false;
  int quality = 95;
};

/// A JPEG with the interleaved samples `pixels`.
Bytes jpeg_file(std::int64_t width, std::int64_t height, const Bytes& pixels, const JpegKind& kind);

/// A smooth picture (JPEG keeps it well): red grows to the right, green downwards, blue along the diagonal.
media::Image gradient(std::int64_t width, std::int64_t height);

}  // namespace unisono::tests
