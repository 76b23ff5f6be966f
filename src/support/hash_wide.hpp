#pragma once
/// XXH3 by vectors that not every x86-64 processor has: twice as fast where the bytes lie in a cache.

#include <cstddef>
#include <cstdint>

namespace unisono::support {

struct Hash128 {
  std::uint64_t low = 0, high = 0;
};

#ifdef UNISONO_HASH_AVX2
/// The same as XXH3_128bits(), for processors with AVX2.
Hash128 hash_avx2(const std::byte* bytes, std::size_t count);
#endif

}  // namespace unisono::support
