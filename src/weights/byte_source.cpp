#include "weights/byte_source.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "coda/error.hpp"

namespace coda::weights {
namespace {

[[noreturn]] void refuse(const std::string& path, std::string_view action, int error) {
  throw UserError(fmt::format("cannot {} '{}': {}", action, path, std::generic_category().message(error)));
}

class FileSource : public ByteSource {
 public:
  explicit FileSource(std::string path) : path_(std::move(path)), fd_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (fd_ < 0) refuse(path_, "open", errno);
    struct stat status {};
    const int error = ::fstat(fd_, &status) == 0 ? 0 : errno;
    const bool regular = S_ISREG(status.st_mode);
    if (error == 0 && regular) {
      size_ = static_cast<std::uint64_t>(status.st_size);
      return;
    }
    ::close(fd_);  // no destructor will
    if (error != 0) refuse(path_, "read", error);
    throw UserError(fmt::format("'{}' is no regular file; expected a file of weights", path_));
  }
  ~FileSource() override { ::close(fd_); }
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;

  std::uint64_t size() const override { return size_; }

  std::vector<std::byte> read(std::uint64_t offset, std::size_t count) const override {
    std::vector<std::byte> bytes(count);
    for (std::size_t done = 0; done < count;) {
      const ssize_t got = ::pread(fd_, bytes.data() + done, count - done, static_cast<off_t>(offset + done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) refuse(path_, "read", errno);
      if (got == 0)
        throw UserError(fmt::format("'{}' ends at byte {}; it had {} when it was opened", path_, offset + done, size_));
      done += static_cast<std::size_t>(got);
    }
    return bytes;
  }

 private:
  std::string path_;
  int fd_;
  std::uint64_t size_ = 0;
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

}  // namespace coda::weights
