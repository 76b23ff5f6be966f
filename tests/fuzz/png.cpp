// The PNG reader. A checksum guards every chunk, so that hardly any mutation would get past the first one: each input
// is tried as it is, and once more with its checksums made right.

#include <zlib.h>

#include <cstdint>
#include <cstdlib>
#include <vector>

#include "media/image.hpp"
#include "unisono/error.hpp"

namespace {

std::vector<std::uint8_t> with_right_checksums(const std::uint8_t* data, std::size_t size) {
  std::vector<std::uint8_t> file(data, data + size);
  std::size_t at = 8;  // signature
  while (at + 12 <= size) {
    const std::size_t length =
        std::size_t{file[at]} << 24 | std::size_t{file[at + 1]} << 16 | std::size_t{file[at + 2]} << 8 | file[at + 3];
    if (length > size - at - 12) break;
    const auto sum = crc32(0, file.data() + at + 4, static_cast<uInt>(length + 4));
    for (int i = 0; i < 4; ++i)
      file[at + 8 + length + static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(sum >> (24 - 8 * i));
    at += length + 12;
  }
  return file;
}

void decode(const std::vector<std::uint8_t>& file) {
  try {
    const unisono::media::Image image =
        unisono::media::decode_png(file, "fuzz.png", {.pixels = 1 << 20, .bytes = 1 << 24});
    if (image.pixels.size() != static_cast<std::size_t>(image.width * image.height * image.channels)) std::abort();
  } catch (const unisono::UserError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  decode({data, data + size});
  decode(with_right_checksums(data, size));
  return 0;
}
