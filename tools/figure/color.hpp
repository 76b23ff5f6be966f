#pragma once
/// Colours, and the colour map of heatmaps.

#include <array>
#include <cstdint>

namespace unisono::figure {

/// sRGB, 8 bits a channel.
struct Color {
  std::uint8_t r = 0, g = 0, b = 0;
  bool operator==(const Color&) const = default;
};

namespace colors {
inline constexpr Color white{255, 255, 255};
inline constexpr Color black{0, 0, 0};
}  // namespace colors

/// OKLab lightness (0 to 1), a and b: a space in which equal steps look about equal. Björn Ottosson, "A perceptual
/// color space for image processing", 2020.
std::array<double, 3> to_oklab(Color color);

/// The sRGB colour of OKLab lightness and hue (in degrees), with the chroma lowered as far as sRGB requires.
Color from_oklch(double lightness, double chroma, double hue);

/// Colour of a heatmap's value: 0 is a dark violet, 1 a light yellow, and lightness grows in equal steps between them,
/// so that neither an edge is invented nor one is lost, in grey print too. Values outside 0 to 1 are clamped; NaN is
/// grey.
Color heat(double value);

/// Some hue that is easily told from those of other indices, for filled boxes behind dark text.
Color pastel(int index);

}  // namespace unisono::figure
