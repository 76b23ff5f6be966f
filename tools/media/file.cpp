#include "media/file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "coda/error.hpp"

namespace coda::media {
namespace {

[[noreturn]] void refuse(const std::filesystem::path& path, std::string_view action, int error) {
  throw UserError(fmt::format("cannot {} '{}': {}", action, path.string(), std::generic_category().message(error)));
}

/// An open file, closed at the end of its life.
class Descriptor {
 public:
  Descriptor(const std::filesystem::path& path, int flags) : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  bool ok() const { return fd_ >= 0; }
  /// close() itself may report that the disk is full (NFS, quotas). Returns errno, 0 if all is well.
  int close() { return ::close(std::exchange(fd_, -1)) == 0 ? 0 : errno; }

 private:
  int fd_;
};

}  // namespace

std::vector<std::uint8_t> read_file(const std::filesystem::path& path, const Limits& limits) {
  Descriptor file(path, O_RDONLY);
  if (!file.ok()) refuse(path, "open", errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) refuse(path, "read", errno);
  const auto too_large = [&] {
    return UserError(fmt::format("'{}' is larger than {} bytes, the limit for one file", path.string(), limits.bytes));
  };
  if (S_ISREG(status.st_mode) && status.st_size > limits.bytes) throw too_large();

  // A pipe or a device says nothing of its size, and a file may grow while it is read: read until the end.
  std::vector<std::uint8_t> bytes(
      static_cast<std::size_t>(std::clamp<std::int64_t>(status.st_size + 1, 4096, limits.bytes + 1)));
  std::size_t used = 0;
  while (true) {
    const ssize_t got = ::read(file.get(), bytes.data() + used, bytes.size() - used);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse(path, "read", errno);
    if (got == 0) break;
    used += static_cast<std::size_t>(got);
    if (static_cast<std::int64_t>(used) > limits.bytes) throw too_large();
    if (used == bytes.size()) bytes.resize(std::min(2 * used, static_cast<std::size_t>(limits.bytes) + 1));
  }
  bytes.resize(used);
  return bytes;
}

void write_file(const std::filesystem::path& path, std::span<const std::uint8_t> bytes) {
  Descriptor file(path, O_WRONLY | O_CREAT | O_TRUNC);
  if (!file.ok()) refuse(path, "write", errno);
  int error = 0;
  while (!bytes.empty() && error == 0) {
    const ssize_t written = ::write(file.get(), bytes.data(), bytes.size());
    if (written >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      error = errno;
    }
  }
  if (const int closing = file.close(); error == 0) error = closing;
  if (error == 0) return;
  std::error_code ignored;  // the first error is the one to report
  if (std::filesystem::is_regular_file(path, ignored)) std::filesystem::remove(path, ignored);
  refuse(path, "write", error);
}

void write_file(const std::filesystem::path& path, std::string_view text) {
  write_file(path, std::span(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()));
}

void make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error && !std::filesystem::is_directory(folder, error) && !error)
    error = std::make_error_code(std::errc::not_a_directory);
  if (error) throw UserError(fmt::format("cannot make the folder '{}': {}", folder.string(), error.message()));
}

}  // namespace coda::media
