/// Compiled for AVX2, so it includes nothing whose inline functions other sources share.

#include "support/hash_wide.hpp"

#define XXH_INLINE_ALL
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wshadow"
#include <xxhash.h>
#pragma GCC diagnostic pop

namespace unisono::support {

Hash128 hash_avx2(const std::byte* bytes, std::size_t count) {
  const XXH128_hash_t hash = XXH3_128bits(bytes, count);
  return {hash.low64, hash.high64};
}

}  // namespace unisono::support
