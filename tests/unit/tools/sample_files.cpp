#include "sample_files.hpp"

#include <jpeglib.h>
#include <png.h>

#include <cstdlib>
#include <stdexcept>

namespace unisono::tests {

Bytes png_file(std::int64_t width, std::int64_t height, const PngKind& kind,
               const std::function<Bytes(std::int64_t)>& row) {
  Bytes file;
  png_structp png = png_create_write_struct(
      PNG_LIBPNG_VER_STRING, nullptr, [](png_structp, png_const_charp) { std::abort(); }, nullptr);
  png_infop info = png_create_info_struct(png);
  const auto append = [](png_structp p, png_bytep bytes, std::size_t count) {
    auto* out = static_cast<Bytes*>(png_get_io_ptr(p));
    out->insert(out->end(), bytes, bytes + count);
  };
  png_set_write_fn(png, &file, append, nullptr);
  png_set_IHDR(png, info, static_cast<png_uint_32>(width), static_cast<png_uint_32>(height), kind.bit_depth,
               kind.color_type, kind.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  std::vector<png_color> palette;
  for (const auto& c : kind.palette) palette.push_back({c[0], c[1], c[2]});
  if (!palette.empty()) png_set_PLTE(png, info, palette.data(), static_cast<int>(palette.size()));
  if (kind.transparent && kind.color_type == PNG_COLOR_TYPE_PALETTE) {
    Bytes alpha(std::size_t{(*kind.transparent)[0]} + 1, 255);
    alpha.back() = 0;
    png_set_tRNS(png, info, alpha.data(), static_cast<int>(alpha.size()), nullptr);
  } else if (kind.transparent) {
    const auto& c = *kind.transparent;
    png_color_16 colour{0, c[0], c[1], c[2], c[0]};
    png_set_tRNS(png, info, nullptr, 0, &colour);
  }
  png_write_info(png, info);
  std::vector<Bytes> rows;
  std::vector<png_bytep> pointers;
  for (std::int64_t y = 0; y < height; ++y) rows.push_back(row(y));
  for (Bytes& r : rows) pointers.push_back(r.data());
  png_write_image(png, pointers.data());
  png_write_end(png, nullptr);
  png_destroy_write_struct(&png, &info);
  return file;
}

Bytes jpeg_file(std::int64_t width, std::int64_t height, const Bytes& pixels, const JpegKind& kind) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);  // exits the test on an error
  jpeg_create_compress(&info);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &memory, &size);
  info.image_width = static_cast<JDIMENSION>(width);
  info.image_height = static_cast<JDIMENSION>(height);
  info.input_components = kind.components;
  info.in_color_space = kind.components == 1 ? JCS_GRAYSCALE : kind.components == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, kind.quality, TRUE);
  if (kind.progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    // libjpeg takes no const, but only reads
    JSAMPROW row = const_cast<std::uint8_t*>(pixels.data()) +
                   info.next_scanline * static_cast<std::size_t>(width * kind.components);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  Bytes file(memory, memory + size);
  jpeg_destroy_compress(&info);
  std::free(memory);
  return file;
}

media::Image gradient(std::int64_t width, std::int64_t height) {
  media::Image image = media::make_image(width, height, 3);
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      std::uint8_t* p = image.at(x, y);
      p[0] = static_cast<std::uint8_t>(255 * x / width);
      p[1] = static_cast<std::uint8_t>(255 * y / height);
      p[2] = static_cast<std::uint8_t>(255 * (x + y) / (width + height));
    }
  }
  return image;
}

}  // namespace unisono::tests
