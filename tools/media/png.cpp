#include <fmt/format.h>
#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <string>

#include "media/check_size.hpp"
#include "media/image.hpp"
#include "unisono/error.hpp"

// libpng reports errors by longjmp, which runs no destructors. So each function here that calls setjmp holds no object
// with a destructor and calls nothing that may throw; whatever owns memory lives in its caller.

namespace unisono::media {
namespace {

/// State of one libpng stream; freed by the destructor on every way out.
struct Stream {
  png_structp png = nullptr;
  png_infop info = nullptr;
  bool reading = true;
  const std::uint8_t* data = nullptr;  // reading: the file
  std::size_t size = 0;
  std::size_t position = 0;
  std::vector<std::uint8_t>* sink = nullptr;  // writing: the file
  char message[160] = "";                     // what went wrong; empty: nothing

  explicit Stream(bool read) : reading(read) {
    const auto create = read ? png_create_read_struct : png_create_write_struct;
    png = create(PNG_LIBPNG_VER_STRING, this, fail, ignore);
    if (png != nullptr) info = png_create_info_struct(png);
    if (info == nullptr) throw InternalError("libpng gave no memory for its state");
  }
  ~Stream() {
    if (reading) {
      png_destroy_read_struct(&png, &info, nullptr);
    } else {
      png_destroy_write_struct(&png, &info);
    }
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  [[noreturn]] static void fail(png_structp png, png_const_charp message) {
    auto* stream = static_cast<Stream*>(png_get_error_ptr(png));
    std::snprintf(stream->message, sizeof stream->message, "%s", message);
    png_longjmp(png, 1);
  }
  static void ignore(png_structp, png_const_charp) {}
};

void read_bytes(png_structp png, png_bytep out, std::size_t count) {
  auto* stream = static_cast<Stream*>(png_get_io_ptr(png));
  if (count > stream->size - stream->position) png_error(png, "the file ends too early");
  std::memcpy(out, stream->data + stream->position, count);
  stream->position += count;
}

/// Reads up to the first row and sets the transformations that lead to 8-bit grey or RGB, with alpha if there is any.
bool read_header(Stream& stream) noexcept {
  if (setjmp(png_jmpbuf(stream.png))) return false;
  png_set_read_fn(stream.png, &stream, read_bytes);
  png_set_user_limits(stream.png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // check_size has a better message
  png_set_chunk_malloc_max(stream.png, 1 << 20);
  png_set_chunk_cache_max(stream.png, 64);
  // no text, profile or time is needed: a compressed one may be a bomb
  png_set_keep_unknown_chunks(stream.png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_read_info(stream.png, stream.info);
  png_set_expand(stream.png);  // palettes and 1, 2, 4 bits to 8; a transparent colour to alpha
  png_set_scale_16(stream.png);
  return true;
}

/// After check_size: fills in what a row will look like.
bool start_rows(Stream& stream, int& passes) noexcept {
  if (setjmp(png_jmpbuf(stream.png))) return false;
  passes = png_set_interlace_handling(stream.png);
  png_read_update_info(stream.png, stream.info);
  return true;
}

/// Reads all rows, and on to the end of the file, so that a truncated one is noticed.
bool read_rows(Stream& stream, std::uint8_t* pixels, std::size_t stride, std::int64_t height, int passes) noexcept {
  if (setjmp(png_jmpbuf(stream.png))) return false;
  for (int pass = 0; pass < passes; ++pass) {
    for (std::int64_t y = 0; y < height; ++y)
      png_read_row(stream.png, pixels + static_cast<std::size_t>(y) * stride, nullptr);
  }
  png_read_end(stream.png, nullptr);
  return true;
}

/// (colour, alpha) pixels to colour, over white: in place, the result is `channels` bytes a pixel.
void composite_over_white(std::vector<std::uint8_t>& pixels, int channels) {
  const std::size_t stride = static_cast<std::size_t>(channels) + 1;
  const std::size_t count = pixels.size() / stride;
  for (std::size_t i = 0; i < count; ++i) {
    const int alpha = pixels[i * stride + static_cast<std::size_t>(channels)];
    for (std::size_t c = 0; c + 1 < stride; ++c) {
      const int mixed = pixels[i * stride + c] * alpha + 255 * (255 - alpha);
      pixels[i * (stride - 1) + c] = static_cast<std::uint8_t>((mixed + 127) / 255);
    }
  }
  pixels.resize(count * (stride - 1));
}

void write_bytes(png_structp png, png_bytep bytes, std::size_t count) {
  auto* stream = static_cast<Stream*>(png_get_io_ptr(png));
  bool stored = true;
  try {
    stream->sink->insert(stream->sink->end(), bytes, bytes + count);
  } catch (...) {  // out of memory: no exception may pass through libpng
    stored = false;
  }
  if (!stored) png_error(png, "out of memory");
}

bool write_image(Stream& stream, const Image& image) noexcept {
  if (setjmp(png_jmpbuf(stream.png))) return false;
  png_set_write_fn(stream.png, &stream, write_bytes, nullptr);
  png_set_IHDR(stream.png, stream.info, static_cast<png_uint_32>(image.width), static_cast<png_uint_32>(image.height),
               8, image.channels == 3 ? PNG_COLOR_TYPE_RGB : PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_set_compression_level(stream.png, 4);
  png_write_info(stream.png, stream.info);
  for (std::int64_t y = 0; y < image.height; ++y) png_write_row(stream.png, image.at(0, y));
  png_write_end(stream.png, nullptr);
  return true;
}

}  // namespace

Image decode_png(std::span<const std::uint8_t> file, std::string_view name, const Limits& limits) {
  Stream stream(true);
  stream.data = file.data();
  stream.size = file.size();
  const auto damaged = [&] {
    return UserError(fmt::format("'{}' is not a valid PNG: {} (at byte {} of {})", name, stream.message,
                                 stream.position, file.size()));
  };
  if (!read_header(stream)) throw damaged();
  const std::int64_t width = png_get_image_width(stream.png, stream.info);
  const std::int64_t height = png_get_image_height(stream.png, stream.info);
  check_size(fmt::format("'{}'", name), width, height, limits);
  int passes = 1;
  if (!start_rows(stream, passes)) throw damaged();

  const int samples = png_get_channels(stream.png, stream.info);  // 1, 2, 3 or 4
  const bool alpha = samples == 2 || samples == 4;
  const std::size_t stride = png_get_rowbytes(stream.png, stream.info);
  if (stride != static_cast<std::size_t>(width * samples)) throw InternalError("libpng did not expand to 8 bits");
  Image image{width, height, alpha ? samples - 1 : samples, {}};
  image.pixels.resize(stride * static_cast<std::size_t>(height));
  if (!read_rows(stream, image.pixels.data(), stride, height, passes)) throw damaged();
  if (alpha) composite_over_white(image.pixels, image.channels);
  return image;
}

std::vector<std::uint8_t> encode_png(const Image& image) {
  check_size("a PNG", image.width, image.height, {.pixels = std::int64_t{1} << 31});
  if ((image.channels != 1 && image.channels != 3) ||
      image.pixels.size() != static_cast<std::size_t>(image.width * image.height * image.channels)) {
    throw InternalError(fmt::format("image of {} x {} x {} with {} bytes", image.width, image.height, image.channels,
                                    image.pixels.size()));
  }
  std::vector<std::uint8_t> file;
  Stream stream(false);
  stream.sink = &file;
  if (!write_image(stream, image)) throw InternalError(fmt::format("libpng: {}", stream.message));
  return file;
}

}  // namespace unisono::media
