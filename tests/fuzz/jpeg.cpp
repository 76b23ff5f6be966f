// The JPEG reader.

#include <cstdint>
#include <cstdlib>

#include "media/image.hpp"
#include "unisono/error.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const unisono::media::Image image =
        unisono::media::decode_jpeg({data, size}, "fuzz.jpg", {.pixels = 1 << 18, .bytes = 1 << 26});
    if (image.pixels.size() != static_cast<std::size_t>(image.width * image.height * image.channels)) std::abort();
  } catch (const unisono::UserError&) {
  }
  return 0;
}
