// The JPEG reader.

#include <cstdint>
#include <cstdlib>

#include "coda/error.hpp"
#include "media/image.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const coda::media::Image image =
        coda::media::decode_jpeg({data, size}, "fuzz.jpg", {.pixels = 1 << 18, .bytes = 1 << 26});
    if (image.pixels.size() != static_cast<std::size_t>(image.width * image.height * image.channels)) std::abort();
  } catch (const coda::UserError&) {
  }
  return 0;
}
