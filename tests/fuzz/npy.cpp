// The .npy reader; what it reads must come back from the writer unchanged.

#include <cstdint>
#include <cstdlib>

#include "coda/error.hpp"
#include "media/npy.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const coda::media::Array array =
        coda::media::decode_npy({data, size}, "fuzz.npy", {.pixels = 1 << 20, .bytes = 1 << 24});
    const coda::media::Array again = coda::media::decode_npy(coda::media::encode_npy(array), "again.npy");
    if (again.type != array.type || again.shape != array.shape || again.bytes != array.bytes) std::abort();
  } catch (const coda::UserError&) {
  }
  return 0;
}
