#include "figure/color.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace unisono::figure {
namespace {

double to_linear(std::uint8_t channel) {
  const double x = channel / 255.0;
  return x <= 0.04045 ? x / 12.92 : std::pow((x + 0.055) / 1.055, 2.4);
}

/// For 0 to 1.
std::uint8_t from_linear(double x) {
  const double encoded = x <= 0.0031308 ? 12.92 * x : 1.055 * std::pow(x, 1 / 2.4) - 0.055;
  return static_cast<std::uint8_t>(std::lround(255 * std::clamp(encoded, 0.0, 1.0)));
}

double cube(double x) { return x * x * x; }

std::array<double, 3> linear_rgb(double lightness, double a, double b) {
  const double l = cube(lightness + 0.3963377774 * a + 0.2158037573 * b);
  const double m = cube(lightness - 0.1055613458 * a - 0.0638541728 * b);
  const double s = cube(lightness - 0.0894841775 * a - 1.2914855480 * b);
  return {4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
          -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
          -0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s};
}

bool in_gamut(const std::array<double, 3>& rgb) {
  return std::all_of(rgb.begin(), rgb.end(), [](double x) { return x >= -1e-6 && x <= 1 + 1e-6; });
}

std::array<Color, 256> make_heat() {
  std::array<Color, 256> table{};
  for (std::size_t i = 0; i < table.size(); ++i) {
    const double t = static_cast<double>(i) / 255;
    // violet, over red, to yellow; muted at the ends, where sRGB has little room
    table[i] = from_oklch(0.17 + 0.79 * t, 0.09 + 0.12 * std::sin(std::numbers::pi * (0.1 + 0.75 * t)), 290 + 178 * t);
  }
  return table;
}

}  // namespace

std::array<double, 3> to_oklab(Color color) {
  const double r = to_linear(color.r), g = to_linear(color.g), b = to_linear(color.b);
  const double l = std::cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const double m = std::cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const double s = std::cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return {0.2104542553 * l + 0.7936177850 * m - 0.0040720468 * s,
          1.9779984951 * l - 2.4285922050 * m + 0.4505937099 * s,
          0.0259040371 * l + 0.7827717662 * m - 0.8086757660 * s};
}

Color from_oklch(double lightness, double chroma, double hue) {
  const double angle = hue * std::numbers::pi / 180;
  const auto at = [&](double c) { return linear_rgb(lightness, c * std::cos(angle), c * std::sin(angle)); };
  if (!in_gamut(at(chroma))) {
    double low = 0, high = chroma;
    for (int i = 0; i < 30; ++i) {
      const double middle = (low + high) / 2;
      (in_gamut(at(middle)) ? low : high) = middle;
    }
    chroma = low;
  }
  const auto rgb = at(chroma);
  return {from_linear(rgb[0]), from_linear(rgb[1]), from_linear(rgb[2])};
}

Color heat(double value) {
  static const std::array<Color, 256> table = make_heat();
  if (std::isnan(value)) return {128, 128, 128};
  return table[static_cast<std::size_t>(std::lround(255 * std::clamp(value, 0.0, 1.0)))];
}

Color pastel(int index) { return from_oklch(0.9, 0.055, 137.508 * index + 300); }  // the golden angle

}  // namespace unisono::figure
