#include "support/replace_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
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
constexpr std::size_t longest_part = 64;  // so much of the target's name has the file beside it

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
  /// For everything that was written to this file's file system since the file was opened.
  int sync_file_system() const { return ::syncfs(file_) == 0 || errno == EINVAL ? 0 : errno; }
  /// May itself report that the disk is full (NFS, quotas).
  int close() { return ::close(std::exchange(file_, -1)) == 0 ? 0 : errno; }

 private:
  int file_;
};

[[noreturn]] void fail(const fs::path& path, int error) {
  throw std::system_error(error, std::generic_category(), path.string());
}

bool is_absent(int error) { return error == ENOENT || error == ENOTDIR; }

/// Where symbolic links lead, also to a file that is not there yet. Throws std::system_error.
fs::path target_of(const fs::path& path) {
  fs::path at = path;
  for (int links = 0;; ++links) {
    struct stat info {};
    const bool exists = ::lstat(at.c_str(), &info) == 0;
    if (!exists && !is_absent(errno)) fail(path, errno);
    if (!exists) return at;
    if (!S_ISLNK(info.st_mode)) return at;
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

}  // namespace

/// A file beside the target that goes unless it was renamed.
class FileReplacements::Beside {
 public:
  Beside(const fs::path& given, const fs::path& target)
      : given_(given),
        target_(target),
        path_(target.parent_path() / ("." + target.filename().string().substr(0, longest_part) + "." + unique_name())),
        file_(path_, O_CREAT | O_EXCL | O_NOFOLLOW),
        made_(file_.ok()) {}
  ~Beside() {
    if (made_) ::unlink(path_.c_str());
  }
  Beside(const Beside&) = delete;
  Beside& operator=(const Beside&) = delete;

  bool ok() const { return made_; }
  bool is_open() const { return file_.ok(); }
  dev_t device() const { return device_; }

  void write(std::string_view bytes, const std::optional<struct stat>& before) {
    if (before) {  // an owner that cannot be kept is this user
      [[maybe_unused]] const int kept = ::fchown(file_.get(), before->st_uid, before->st_gid);
      if (::fchmod(file_.get(), before->st_mode & 07777) != 0) fail(given_, errno);
    }
    if (const int error = file_.write(bytes); error != 0) fail(given_, error);
    struct stat info {};
    if (::fstat(file_.get(), &info) != 0) fail(given_, errno);
    device_ = info.st_dev;
  }
  void sync(bool with_others) const {
    if (const int error = with_others ? file_.sync_file_system() : file_.sync(); error != 0) fail(given_, error);
  }
  void close() {
    if (const int error = file_.close(); error != 0) fail(given_, error);
  }
  void take_name() {
    if (::rename(path_.c_str(), target_.c_str()) == 0) {
      made_ = false;
    } else if (errno == EBUSY) {  // another file system is mounted on the target
      std::error_code error;
      fs::copy_file(path_, target_, fs::copy_options::overwrite_existing, error);
      if (error) fail(given_, error.value());
    } else {
      fail(given_, errno);
    }
  }

  /// Null: nothing can be made there, and the bytes were written in place.
  static std::unique_ptr<Beside> with(const fs::path& path, std::string_view bytes);

 private:
  fs::path given_, target_, path_;
  Output file_;
  bool made_;
  dev_t device_ = 0;
};

std::unique_ptr<FileReplacements::Beside> FileReplacements::Beside::with(const fs::path& path, std::string_view bytes) {
  const fs::path target = target_of(path);
  struct stat info {};
  const bool exists = ::stat(target.c_str(), &info) == 0;
  if (!exists && !is_absent(errno)) fail(path, errno);
  if (names_a_descriptor(path) || (exists && !S_ISREG(info.st_mode))) return write_in_place(path, bytes), nullptr;
  if (exists && ::faccessat(AT_FDCWD, target.c_str(), W_OK, AT_EACCESS) != 0)
    fail(path, errno);  // a read-only file is not to be replaced
  auto beside = std::make_unique<Beside>(path, target);
  if (!beside->ok()) {
    const bool closed_folder = errno == EACCES || errno == EPERM || errno == EROFS;
    if (exists && closed_folder) return write_in_place(target, bytes), nullptr;
    fail(path, errno);
  }
  beside->write(bytes, exists ? std::optional(info) : std::nullopt);
  return beside;
}

void replace_file(const fs::path& path, std::string_view bytes) {
  FileReplacements one;
  one.write(path, bytes);
  one.commit();
}

FileReplacements::FileReplacements() = default;
FileReplacements::~FileReplacements() = default;

std::ptrdiff_t FileReplacements::in_file_system(dev_t device) const {
  return std::count_if(files_.begin(), files_.end(), [&](const auto& file) { return file->device() == device; });
}

void FileReplacements::write(const fs::path& path, std::string_view bytes) {
  auto beside = Beside::with(path, bytes);
  if (!beside) return;
  // the first in each file system stays open: it waits for all of them, and hears of errors since it was opened
  if (in_file_system(beside->device()) > 0) beside->close();
  files_.push_back(std::move(beside));
}

void FileReplacements::commit() {
  for (const auto& file : files_) {
    if (!file->is_open()) continue;
    file->sync(in_file_system(file->device()) > 1);
    file->close();
  }
  for (const auto& file : files_) file->take_name();
  files_.clear();
}

}  // namespace unisono::support
