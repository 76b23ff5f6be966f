#include "support/replace_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "support/files.hpp"

namespace unisono::support {
namespace {

namespace fs = std::filesystem;

constexpr int most_links = 40;
constexpr std::size_t longest_part = 64;  // of the target's name in that of the file beside it

class Output {
 public:
  Output(const fs::path& path, int flags)
      : file_(::open(path.c_str(), flags | O_WRONLY | O_CLOEXEC | O_NOCTTY, 0666)) {}
  ~Output() {
    if (file_ >= 0) ::close(file_);
  }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  bool ok() const { return file_ >= 0; }
  int get() const { return file_; }
  /// These return errno; 0: done.
  int write(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t n = ::write(file_, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return errno;
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
    return 0;
  }
  int sync() const { return ::fsync(file_) == 0 || errno == EINVAL ? 0 : errno; }
  /// May itself report that the disk is full (NFS, quotas).
  int close() { return ::close(std::exchange(file_, -1)) == 0 ? 0 : errno; }

 private:
  int file_;
};

[[noreturn]] void fail(const fs::path& path, int error) {
  throw std::system_error(error, std::generic_category(), path.string());
}

/// Where symbolic links lead, also to a file that is not there yet. Throws std::system_error.
fs::path target_of(const fs::path& path) {
  fs::path at = path;
  for (int links = 0;; ++links) {
    struct stat info {};
    if (::lstat(at.c_str(), &info) != 0 || !S_ISLNK(info.st_mode)) return at;
    if (links == most_links) fail(path, ELOOP);
    std::error_code failed;
    const fs::path to = fs::read_symlink(at, failed);
    if (failed) fail(path, failed.value());
    at = to.is_absolute() ? to : at.parent_path() / to;
  }
}

/// /dev/stdout may be a regular file, which the shell has open and goes on with: no other may take its name.
bool names_a_descriptor(const fs::path& path) {
  const std::string text = path.lexically_normal().string();
  return text.starts_with("/dev/") || text.starts_with("/proc/");
}

void write_in_place(const fs::path& path, std::string_view bytes) {
  Output file(path, O_CREAT | O_TRUNC);
  if (!file.ok()) fail(path, errno);
  int error = file.write(bytes);
  if (const int closing = file.close(); error == 0) error = closing;
  if (error != 0) fail(path, error);
}

/// A file beside the target that goes unless it was renamed.
class Beside {
 public:
  explicit Beside(const fs::path& target)
      : path_(target.parent_path() / ("." + target.filename().string().substr(0, longest_part) + "." + unique_name())),
        file_(path_, O_CREAT | O_EXCL | O_NOFOLLOW) {}
  ~Beside() {
    if (file_.ok() || written_) ::unlink(path_.c_str());
  }
  Beside(const Beside&) = delete;
  Beside& operator=(const Beside&) = delete;

  Output& file() { return file_; }
  int write(std::string_view bytes, const std::optional<struct stat>& before) {
    written_ = true;
    if (before) {  // an owner that cannot be kept is this user
      [[maybe_unused]] const int kept = ::fchown(file_.get(), before->st_uid, before->st_gid);
      if (::fchmod(file_.get(), before->st_mode & 07777) != 0) return errno;
    }
    int error = file_.write(bytes);
    if (error == 0) error = file_.sync();
    if (const int closing = file_.close(); error == 0) error = closing;
    return error;
  }
  int rename_to(const fs::path& target) {
    if (::rename(path_.c_str(), target.c_str()) != 0) return errno;
    written_ = false;
    return 0;
  }

 private:
  fs::path path_;
  Output file_;
  bool written_ = false;
};

}  // namespace

void replace_file(const fs::path& path, std::string_view bytes) {
  const fs::path target = target_of(path);
  struct stat info {};
  const bool exists = ::stat(target.c_str(), &info) == 0;
  if (names_a_descriptor(path) || (exists && !S_ISREG(info.st_mode))) return write_in_place(path, bytes);
  if (exists && ::faccessat(AT_FDCWD, target.c_str(), W_OK, AT_EACCESS) != 0)
    fail(path, errno);  // a read-only file is not to be replaced
  Beside beside(target);
  if (!beside.file().ok()) {
    const bool closed_folder = errno == EACCES || errno == EPERM || errno == EROFS;
    if (exists && closed_folder) return write_in_place(target, bytes);
    fail(path, errno);
  }
  const int error = beside.write(bytes, exists ? std::optional(info) : std::nullopt);
  if (error != 0) fail(path, error);
  const int renaming = beside.rename_to(target);
  if (renaming == EBUSY) return write_in_place(target, bytes);  // another file system is mounted on it
  if (renaming != 0) fail(path, renaming);
}

}  // namespace unisono::support
