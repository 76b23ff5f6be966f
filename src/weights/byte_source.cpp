#include "weights/byte_source.hpp"

#include <fmt/format.h>

#include <system_error>

#include "support/printable.hpp"
#include "support/regular_file.hpp"
#include "unisono/error.hpp"

namespace unisono::weights {
namespace {

class FileSource : public ByteSource {
 public:
  explicit FileSource(const std::string& path) : path_(support::printable(path)), file_(path) {}

  std::uint64_t size() const override { return file_.size(); }

  std::vector<std::byte> read(std::uint64_t offset, std::size_t count) const override try {
    std::vector<std::byte> bytes(count);
    if (const std::size_t got = file_.read(offset, bytes); got < count)
      throw UserError(fmt::format("'{}' ends at byte {}; it had {} when it was opened", path_, offset + got, size()));
    return bytes;
  } catch (const std::system_error& error) {
    throw UserError(fmt::format("cannot read '{}': {}", path_, error.code().message()));
  }

 private:
  std::string path_;
  support::RegularFile file_;
};

class MemorySource : public ByteSource {
 public:
  explicit MemorySource(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}
  std::uint64_t size() const override { return bytes_.size(); }
  std::vector<std::byte> read(std::uint64_t offset, std::size_t count) const override {
    const auto begin = bytes_.begin() + static_cast<std::ptrdiff_t>(offset);
    return {begin, begin + static_cast<std::ptrdiff_t>(count)};
  }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace

std::unique_ptr<ByteSource> open_source(const std::string& path) { return std::make_unique<FileSource>(path); }

std::unique_ptr<ByteSource> memory_source(std::vector<std::byte> bytes) {
  return std::make_unique<MemorySource>(std::move(bytes));
}

}  // namespace unisono::weights
