#include "media/image.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "media/check_size.hpp"
#include "unisono/error.hpp"

namespace unisono::media {
namespace {

/// The first bytes as text, for a message.
std::string first_bytes(std::span<const std::uint8_t> file) {
  if (file.empty()) return "the file is empty";
  std::string text = "the first bytes are";
  for (const std::uint8_t byte : file.first(std::min<std::size_t>(file.size(), 8)))
    text += fmt::format(" {:02x}", byte);
  return text;
}

bool starts_with(std::span<const std::uint8_t> file, std::span<const std::uint8_t> signature) {
  return file.size() >= signature.size() && std::equal(signature.begin(), signature.end(), file.begin());
}

}  // namespace

Image make_image(std::int64_t width, std::int64_t height, int channels, std::uint8_t value, const Limits& limits) {
  check_size("an image", width, height, limits);
  return {width, height, channels,
          std::vector<std::uint8_t>(static_cast<std::size_t>(width * height * channels), value)};
}

Image read_image(const std::filesystem::path& path, const Limits& limits) {
  static constexpr std::array<std::uint8_t, 8> png{0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  static constexpr std::array<std::uint8_t, 3> jpeg{0xff, 0xd8, 0xff};
  const std::vector<std::uint8_t> file = read_file(path, limits);
  if (starts_with(file, png)) return decode_png(file, path.string(), limits);
  if (starts_with(file, jpeg)) return decode_jpeg(file, path.string(), limits);
  throw UserError(fmt::format("'{}' is neither a PNG nor a JPEG image: {}", path.string(), first_bytes(file)));
}

void write_png(const std::filesystem::path& path, const Image& image) { write_file(path, encode_png(image)); }

Image to_rgb(Image image) {
  if (image.channels == 3) return image;
  Image rgb{image.width, image.height, 3, std::vector<std::uint8_t>(image.pixels.size() * 3)};
  for (std::size_t i = 0; i < image.pixels.size(); ++i) {
    std::fill_n(rgb.pixels.begin() + static_cast<std::ptrdiff_t>(3 * i), 3, image.pixels[i]);
  }
  return rgb;
}

}  // namespace unisono::media
