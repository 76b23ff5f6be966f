#include "support/regular_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "support/printable.hpp"
#include "support/trust.hpp"
#include "unisono/error.hpp"

namespace unisono::support {
namespace {

constexpr std::size_t first_read = 4096;

[[noreturn]] void fail_reading(const std::string& name) {
  throw std::system_error(errno, std::generic_category(), name);
}

std::string quoted(const std::filesystem::path& path) { return "'" + printable(path.string()) + "'"; }

std::string cannot_open(const std::filesystem::path& path, int error) {
  return "cannot open " + quoted(path) + ": " + std::generic_category().message(error);
}

/// Empty for a regular file.
std::string refusal(const std::filesystem::path& path, const struct stat& info) {
  if (S_ISREG(info.st_mode)) return "";
  if (S_ISDIR(info.st_mode)) return "cannot open " + quoted(path) + ": Is a directory; expected a regular file";
  const bool stream = S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode);
  const char* const kind = S_ISFIFO(info.st_mode)   ? "a FIFO (a pipe, as <(…) makes one)"
                           : S_ISSOCK(info.st_mode) ? "a socket"
                           : S_ISCHR(info.st_mode)  ? "a character device"
                           : S_ISBLK(info.st_mode)  ? "a block device"
                           : S_ISLNK(info.st_mode)  ? "a symbolic link"
                                                    : "no file";
  return quoted(path) + " is " + kind + "; expected a regular file" +
         (stream ? ": write what comes out of it to a file first, and give that file" : "");
}

}  // namespace

std::optional<RegularFile> RegularFile::attempt(const std::filesystem::path& path, std::string& why, Links links) {
  const bool follow = links == Links::follow;
  struct stat info {};
  if ((follow ? ::stat(path.c_str(), &info) : ::lstat(path.c_str(), &info)) != 0) {
    why = cannot_open(path, errno);
    return std::nullopt;
  }
  why = refusal(path, info);
  if (!why.empty()) return std::nullopt;
  RegularFile result;
  // something else may have taken its place meanwhile: O_NONBLOCK, and look again
  result.file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (follow ? 0 : O_NOFOLLOW));
  if (result.file_ < 0 || ::fstat(result.file_, &info) != 0) {
    why = cannot_open(path, errno);
    return std::nullopt;
  }
  why = refusal(path, info);
  if (!why.empty()) return std::nullopt;
  result.size_ = static_cast<std::uint64_t>(info.st_size);
  result.own_ = support::is_own(info);
  result.path_ = path;
  return result;
}

RegularFile::RegularFile(const std::filesystem::path& path)
    : RegularFile([&] {
        std::string why;
        auto opened = attempt(path, why);
        if (!opened) throw UserError(why);
        return std::move(*opened);
      }()) {}

RegularFile::RegularFile(RegularFile&& other) noexcept
    : file_(std::exchange(other.file_, -1)), size_(other.size_), own_(other.own_), path_(std::move(other.path_)) {}

RegularFile::~RegularFile() {
  if (file_ >= 0) ::close(file_);
}

std::size_t RegularFile::read(std::uint64_t offset, std::span<std::byte> bytes) const {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n =
        ::pread(file_, bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + std::uint64_t{done}));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_reading(path_.string());
    if (n == 0) break;
    done += static_cast<std::size_t>(n);
  }
  return done;
}

std::optional<std::string> RegularFile::read_all(std::uint64_t most) const {
  if (size_ > most) return std::nullopt;
  std::string bytes(std::max<std::size_t>(size_ + 1, first_read), '\0');  // one more, so that the end shows
  std::size_t used = 0;
  while (true) {
    used += read(used, std::as_writable_bytes(std::span(bytes)).subspan(used));
    if (used > most) return std::nullopt;
    if (used < bytes.size()) break;
    bytes.resize(2 * used);
  }
  bytes.resize(used);
  return bytes;
}

std::string why_not_regular(const std::filesystem::path& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? refusal(path, info) : "";
}

std::optional<std::string> read_stream(int file, std::uint64_t most, const std::string& name) {
  std::string bytes(first_read, '\0');
  std::size_t used = 0;
  while (true) {
    const ssize_t n = ::read(file, bytes.data() + used, bytes.size() - used);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_reading(name);
    if (n == 0) break;
    used += static_cast<std::size_t>(n);
    if (used > most) return std::nullopt;
    if (used == bytes.size()) bytes.resize(2 * used);
  }
  bytes.resize(used);
  return bytes;
}

}  // namespace unisono::support
