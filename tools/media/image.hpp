#pragma once
/// 8-bit images, and reading and writing them as PNG and JPEG files.

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "media/file.hpp"

namespace unisono::media {

/// An 8-bit image, top row first: pixel (x, y) has `channels` bytes from (y·width + x)·channels on.
struct Image {
  std::int64_t width = 0;
  std::int64_t height = 0;
  int channels = 3;  ///< 1: grey; 3: red, green, blue
  std::vector<std::uint8_t> pixels;

  const std::uint8_t* at(std::int64_t x, std::int64_t y) const { return pixels.data() + (y * width + x) * channels; }
  std::uint8_t* at(std::int64_t x, std::int64_t y) { return pixels.data() + (y * width + x) * channels; }
};

/// An image of one colour. Throws UserError beyond `limits`.
Image make_image(std::int64_t width, std::int64_t height, int channels, std::uint8_t value = 0,
                 const Limits& limits = {});

/// Decodes a PNG of any kind to grey or RGB. Palettes and 1, 2 and 4 bits are expanded, 16 bits rounded to 8; an alpha
/// channel (or a transparent colour) is composited over white; gamma and colour profiles are not applied. `name` is
/// used in messages. Throws UserError for anything that is not a whole, valid PNG within the limits.
Image decode_png(std::span<const std::uint8_t> file, std::string_view name, const Limits& limits = {});

/// Decodes a baseline or progressive JPEG to grey or RGB. Colour profiles and the EXIF orientation are not applied.
/// Throws UserError for CMYK, for damaged or truncated data, and beyond the limits.
Image decode_jpeg(std::span<const std::uint8_t> file, std::string_view name, const Limits& limits = {});

/// Reads a PNG or JPEG file, told apart by their first bytes. Throws UserError.
Image read_image(const std::filesystem::path& path, const Limits& limits = {});

/// The image as a PNG file. Throws UserError for an image that PNG cannot hold (no pixels).
std::vector<std::uint8_t> encode_png(const Image& image);

/// encode_png into a file. Throws UserError if it cannot be written.
void write_png(const std::filesystem::path& path, const Image& image);

/// Grey images get three equal channels; RGB images are returned as they are.
Image to_rgb(Image image);

}  // namespace unisono::media
