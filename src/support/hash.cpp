#include "support/hash.hpp"

#include <fmt/format.h>

#include <cstdint>

// in the header alone: the library needs no further shared object
#define XXH_INLINE_ALL
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wshadow"
#include <xxhash.h>
#pragma GCC diagnostic pop

namespace unisono::support {
namespace {

std::string hex(XXH128_hash_t h) {
  return fmt::format("{:016x}{:016x}", static_cast<std::uint64_t>(h.high64), static_cast<std::uint64_t>(h.low64));
}

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

std::string hash(std::string_view bytes) { return hex(XXH3_128bits(bytes.data(), bytes.size())); }

std::string hash(std::span<const std::byte> bytes) { return hex(XXH3_128bits(bytes.data(), bytes.size())); }

}  // namespace unisono::support
