#include "support/files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

#include "support/regular_file.hpp"

namespace unisono::support {
namespace {

constexpr std::uint64_t most_bytes = std::uint64_t{1} << 30;

[[noreturn]] void fail(const std::filesystem::path& path) {
  throw std::system_error(errno, std::generic_category(), path.string());
}

struct Descriptor {
  int file;
  ~Descriptor() {
    if (file >= 0) ::close(file);
  }
};

void write_new(const std::filesystem::path& path, std::string_view bytes, bool synced) {
  const Descriptor d{::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644)};
  if (d.file < 0) fail(path);
  while (!bytes.empty()) {
    const ssize_t n = ::write(d.file, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(path);
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  if (synced && ::fsync(d.file) != 0) fail(path);
}

}  // namespace

std::optional<std::string> read_file(const std::filesystem::path& path) try {
  std::string why;
  const auto file = RegularFile::attempt(path, why);
  return file ? file->read_all(most_bytes) : std::nullopt;
} catch (const std::system_error&) {
  return std::nullopt;
}

void write_file(const std::filesystem::path& path, std::string_view bytes) { write_new(path, bytes, false); }

void write_synced_file(const std::filesystem::path& path, std::string_view bytes) { write_new(path, bytes, true); }

void sync_folder(const std::filesystem::path& folder) {
  const Descriptor d{::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (d.file < 0) fail(folder);
  // some file systems have nothing to do for a folder and say so with EINVAL
  if (::fsync(d.file) != 0 && errno != EINVAL) fail(folder);
}

void make_folders(const std::filesystem::path& folder) {
  struct stat info {};
  if (::stat(folder.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) return;
    errno = ENOTDIR;
    fail(folder);
  }
  if (folder.has_parent_path() && folder.parent_path() != folder) make_folders(folder.parent_path());
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) fail(folder);
}

}  // namespace unisono::support
