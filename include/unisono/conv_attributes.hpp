#pragma once
/// Stride, padding, dilation and groups: shared by contractions, operators of networks and the network builder.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace unisono {

/// A number for rows and one for columns. A single number means both.
struct Pair {
  std::int64_t h = 1, w = 1;
  constexpr Pair(std::int64_t both) : h(both), w(both) {}
  constexpr Pair(std::int64_t rows, std::int64_t columns) : h(rows), w(columns) {}
  /// By axis: rows, columns.
  constexpr std::int64_t& operator[](std::size_t axis) { return axis == 0 ? h : w; }
  constexpr const std::int64_t& operator[](std::size_t axis) const { return axis == 0 ? h : w; }
  bool operator==(const Pair&) const = default;
};

/// A number for planes, one for rows and one for columns of a volume. A single number means all three.
struct Triple {
  std::int64_t d = 1, h = 1, w = 1;
  constexpr Triple(std::int64_t all) : d(all), h(all), w(all) {}
  constexpr Triple(std::int64_t planes, std::int64_t rows, std::int64_t columns) : d(planes), h(rows), w(columns) {}
  /// By axis: planes, rows, columns.
  constexpr std::int64_t& operator[](std::size_t axis) { return axis == 0 ? d : axis == 1 ? h : w; }
  constexpr const std::int64_t& operator[](std::size_t axis) const { return axis == 0 ? d : axis == 1 ? h : w; }
  bool operator==(const Triple&) const = default;
};

/// Margins around an image. A single number means all sides.
struct Margins {
  std::int64_t top = 0, left = 0, bottom = 0, right = 0;
  constexpr Margins(std::int64_t all) : Margins(all, all, all, all) {}
  constexpr Margins(std::int64_t t, std::int64_t l, std::int64_t b, std::int64_t r)
      : top(t), left(l), bottom(b), right(r) {}
  /// By side: top, left, bottom, right. Side i + 2 is opposite side i.
  constexpr std::int64_t& operator[](std::size_t side) {
    return side == 0 ? top : side == 1 ? left : side == 2 ? bottom : right;
  }
  constexpr const std::int64_t& operator[](std::size_t side) const {
    return side == 0 ? top : side == 1 ? left : side == 2 ? bottom : right;
  }
  bool operator==(const Margins&) const = default;
};

/// The attributes of convolutions besides extents and dtypes. unisono::Conv2d and ConvTranspose2d have the same fields,
/// operators::Conv2d and ConvTranspose2d derive from it, and the functions of the network builder take it.
struct ConvAttributes {
  Pair stride = 1;          ///< in input pixels (of a transposed convolution: output pixels)
  Margins pad = 0;          ///< zeros around the image (of a transposed convolution: outputs that are cropped)
  Pair output_pad = 0;      ///< transposed convolutions only: extra output rows at the bottom and columns at the right
  Pair dilation = 1;        ///< distance of the filter's taps in pixels
  std::int64_t groups = 1;  ///< output channels read only the input channels of their group
  bool operator==(const ConvAttributes&) const = default;
};

/// Throws UserError that starts with `where` and names the wrong field: a stride or dilation outside 1 to 2^24, padding
/// outside 0 to 2^31, fewer than one group, an output_pad that is not below max(stride, dilation), or that is not 0 for
/// a convolution that is not transposed.
void check_attributes(const ConvAttributes& attributes, bool transposed, std::string_view where);

/// Returns the attributes that differ from the defaults: ", stride 2x2, pad 1, dilation 2x2, groups 4".
std::string to_string(const ConvAttributes& attributes);

}  // namespace unisono
