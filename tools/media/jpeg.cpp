#include <fmt/format.h>
#include <jpeglib.h>
// after jpeglib.h, which says what libjpeg was built with
#include <jerror.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <string>

#include "media/check_size.hpp"
#include "media/image.hpp"
#include "unisono/error.hpp"

// As in png.cpp: functions with setjmp own nothing that has a destructor, and nothing throws through libjpeg.

namespace unisono::media {
namespace {

/// A progressive file may hold any number of scans over the whole image; encoders write about ten.
constexpr int max_scans = 200;

/// State of one decoder. `errors` comes first: libjpeg hands back a pointer to it.
struct Decoder {
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  jpeg_decompress_struct info{};
  std::jmp_buf escape;
  char message[JMSG_LENGTH_MAX] = "";

  Decoder() {
    info.err = jpeg_std_error(&errors);
    errors.error_exit = fail;
    errors.emit_message = warn;
    progress.progress_monitor = watch;
    info.client_data = this;
  }
  ~Decoder() { jpeg_destroy_decompress(&info); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  [[noreturn]] static void fail(j_common_ptr info) {
    auto* decoder = static_cast<Decoder*>(info->client_data);
    info->err->format_message(info, decoder->message);
    std::longjmp(decoder->escape, 1);
  }
  /// libjpeg goes on with grey where data are missing or damaged; a network should not be fed that.
  static void warn(j_common_ptr info, int level) {
    if (level >= 0) return;  // a trace
    switch (info->err->msg_code) {
      case JWRN_JPEG_EOF:
      case JWRN_HIT_MARKER:
      case JWRN_HUFF_BAD_CODE:
      case JWRN_ARITH_BAD_CODE:
      case JWRN_MUST_RESYNC: fail(info);
      default: break;  // stray bytes between markers and the like: harmless, and common
    }
  }
  static void watch(j_common_ptr info) {
    auto* decoder = static_cast<Decoder*>(info->client_data);
    if (decoder->info.input_scan_number <= max_scans) return;
    std::snprintf(decoder->message, sizeof decoder->message, "more than %d scans", max_scans);
    std::longjmp(decoder->escape, 1);
  }
};

bool read_header(Decoder& decoder, const std::uint8_t* data, std::size_t size, std::int64_t memory) noexcept {
  if (setjmp(decoder.escape)) return false;
  jpeg_create_decompress(&decoder.info);
  decoder.info.progress = &decoder.progress;
  decoder.info.mem->max_memory_to_use = static_cast<long>(memory);
  jpeg_mem_src(&decoder.info, data, static_cast<unsigned long>(size));
  jpeg_read_header(&decoder.info, TRUE);
  return true;
}

bool read_rows(Decoder& decoder, std::uint8_t* pixels, std::size_t stride, int channels) noexcept {
  if (setjmp(decoder.escape)) return false;
  decoder.info.out_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_start_decompress(&decoder.info);
  while (decoder.info.output_scanline < decoder.info.output_height) {
    JSAMPROW row = pixels + decoder.info.output_scanline * stride;
    jpeg_read_scanlines(&decoder.info, &row, 1);
  }
  jpeg_finish_decompress(&decoder.info);  // reads on to the end marker, so a truncated file is noticed
  return true;
}

}  // namespace

Image decode_jpeg(std::span<const std::uint8_t> file, std::string_view name, const Limits& limits) {
  Decoder decoder;
  const auto damaged = [&] { return UserError(fmt::format("'{}' is not a valid JPEG: {}", name, decoder.message)); };
  if (file.empty()) throw UserError(fmt::format("'{}' is not a valid JPEG: it is empty", name));
  if (!read_header(decoder, file.data(), file.size(), limits.bytes)) throw damaged();
  const std::int64_t width = decoder.info.image_width;
  const std::int64_t height = decoder.info.image_height;
  check_size(fmt::format("'{}'", name), width, height, limits);
  const J_COLOR_SPACE space = decoder.info.jpeg_color_space;
  if (space != JCS_GRAYSCALE && space != JCS_YCbCr && space != JCS_RGB) {
    const char* found = space == JCS_CMYK || space == JCS_YCCK ? "CMYK" : "unknown";
    throw UserError(
        fmt::format("'{}' is a JPEG with {} components of {} colour; expected grey or RGB: convert it first", name,
                    decoder.info.num_components, found));
  }
  Image image{width, height, space == JCS_GRAYSCALE ? 1 : 3, {}};
  const std::size_t stride = static_cast<std::size_t>(width) * static_cast<std::size_t>(image.channels);
  image.pixels.resize(stride * static_cast<std::size_t>(height));
  if (!read_rows(decoder, image.pixels.data(), stride, image.channels)) throw damaged();
  return image;
}

}  // namespace unisono::media
