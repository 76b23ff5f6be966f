#include "support/hash.hpp"

#include <fmt/format.h>

#include <cstdint>

#include "support/hash_wide.hpp"

// in the header alone: the library needs no further shared object
#define XXH_INLINE_ALL
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wshadow"
#include <xxhash.h>
#pragma GCC diagnostic pop

namespace unisono::support {
namespace {

std::string hex(const Hash128& h) { return fmt::format("{:016x}{:016x}", h.high, h.low); }
std::string hex(XXH128_hash_t h) { return hex(Hash128{h.low64, h.high64}); }

}  // namespace

struct Hasher::State {
  XXH3_state_t xxh;  // asks for an alignment of 64, which operator new gives
};

Hasher::Hasher() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->xxh); }
Hasher::~Hasher() = default;

Hasher& Hasher::field(std::string_view bytes) {
  const std::uint64_t size = bytes.size();
  XXH3_128bits_update(&state_->xxh, &size, sizeof size);
  XXH3_128bits_update(&state_->xxh, bytes.data(), bytes.size());
  return *this;
}

std::string Hasher::digest() const { return hex(XXH3_128bits_digest(&state_->xxh)); }

std::string hash(std::string_view bytes) { return hash(std::as_bytes(std::span(bytes))); }

std::string hash(std::span<const std::byte> bytes) {
#ifdef UNISONO_HASH_AVX2
  static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
  if (has_avx2) return hex(hash_avx2(bytes.data(), bytes.size()));
#endif
  return hex(XXH3_128bits(bytes.data(), bytes.size()));
}

}  // namespace unisono::support
