#pragma once
/// Random access to the bytes of a file, or of memory.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace unisono::weights {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual std::uint64_t size() const = 0;
  /// Exactly `count` bytes from `offset` on; both lie within size(). Throws UserError if they cannot be read.
  virtual std::vector<std::byte> read(std::uint64_t offset, std::size_t count) const = 0;
};

/// A regular file, read where asked: what others do to it meanwhile is an error, never a fault. Throws UserError.
std::unique_ptr<ByteSource> open_source(const std::string& path);
std::unique_ptr<ByteSource> memory_source(std::vector<std::byte> bytes);

}  // namespace unisono::weights
