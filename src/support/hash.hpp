#pragma once
/// 128-bit hashes (XXH3) of bytes, as 32 hexadecimal digits. They find accidents, not attackers.

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace unisono::support {

/// Hashes a sequence of fields: ("ab", "c") and ("a", "bc") differ.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher& field(std::string_view bytes);
  /// The hash of all fields so far.
  std::string digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The hash of one piece of memory.
std::string hash(std::string_view bytes);
std::string hash(std::span<const std::byte> bytes);

}  // namespace unisono::support
