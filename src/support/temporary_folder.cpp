// Folders of one process: their names, the lock that says whether their process still runs, and what ended ones left.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <system_error>
#include <utility>

#include "support/files.hpp"
#include "support/hash.hpp"

namespace unisono::support {
namespace {

namespace fs = std::filesystem;

constexpr double day = 24 * 3600;
constexpr std::size_t host_length = 12, name_length = host_length + 1 + 16;
constexpr std::string_view no_host = "000000000000";  // of folders that could not be locked
constexpr std::string_view hex_digits = "0123456789abcdef";

[[noreturn]] void fail(const fs::path& path, int error) {
  throw std::system_error(error, std::generic_category(), path.string());
}

/// This host, since it was started: other hosts do not see its locks.
std::string host_digits() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  Hasher h;
  // files of /proc have no size: read_file would give nothing
  std::array<char, 64> boot{};
  if (std::FILE* file = std::fopen("/proc/sys/kernel/random/boot_id", "re")) {
    if (std::fgets(boot.data(), boot.size(), file) == nullptr) boot[0] = '\0';
    std::fclose(file);
  }
  h.field(name.data()).field(boot.data());
  return h.digest().substr(0, host_length);
}

const std::string& host() {
  static const std::string digits = host_digits();
  return digits;
}

/// A folder that is open, for its lock, which goes with the last descriptor of the last thread that has it. The lock of
/// a folder is the kernel's own on every file system, NFS included.
class OpenFolder {
 public:
  explicit OpenFolder(const fs::path& path)
      : file_(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)), error_(file_ < 0 ? errno : 0) {}
  ~OpenFolder() {
    if (file_ >= 0) ::close(file_);
  }
  OpenFolder(const OpenFolder&) = delete;
  OpenFolder& operator=(const OpenFolder&) = delete;

  /// The calls' errno; 0: done.
  int error() const { return error_; }
  int lock() const { return ::flock(file_, LOCK_EX | LOCK_NB) == 0 ? 0 : errno; }
  int release() { return std::exchange(file_, -1); }

 private:
  int file_, error_;
};

bool is_there(const fs::path& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0 || errno != ENOENT;
}

/// Whether something of a unique name, last changed so long ago, belongs to nobody. `folder`: what is open there.
bool is_left(std::string_view name, double age_seconds, const OpenFolder& folder) {
  if (age_seconds > day && !name.starts_with(host())) return true;
  if (!name.starts_with(host()) || name.size() != name_length || folder.error() != 0) return false;
  return folder.lock() == 0;
}

}  // namespace

std::string unique_name() {
  std::uint64_t number = 0;
  if (::getentropy(&number, sizeof number) != 0) throw std::system_error(errno, std::generic_category(), "getentropy");
  return fmt::format("{}-{:016x}", host(), number);
}

bool is_unique_name(std::string_view name) {
  if (name.size() < host_length + 2 || name[host_length] != '-') return false;
  const std::string_view rest = name.substr(host_length + 1);
  return name.substr(0, host_length).find_first_not_of(hex_digits) == std::string_view::npos &&
         rest.find_first_not_of("-0123456789abcdef") == std::string_view::npos;
}

std::size_t sweep(const fs::path& folder) {
  std::size_t removed = 0;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    struct stat info {};
    if (!is_unique_name(name) || ::lstat(it->path().c_str(), &info) != 0) continue;
    const double now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
    const OpenFolder open(it->path());  // locked until all of it is removed
    if (!is_left(name, now - static_cast<double>(info.st_mtime), open)) continue;
    std::error_code ignored;
    fs::remove_all(it->path(), ignored);
    removed += !is_there(it->path());
  }
  return removed;
}

TemporaryFolder::TemporaryFolder(const fs::path& parent) {
  make_folders(parent);
  for (int attempt = 0; !make(parent / unique_name()); ++attempt)
    if (attempt == 100) fail(parent, EBUSY);  // a sweep took each of them before it was locked
}

bool TemporaryFolder::make(const fs::path& path) {
  if (::mkdir(path.c_str(), 0700) != 0) fail(path, errno);
  path_ = path;
  OpenFolder folder(path);
  const int error = folder.error() != 0 ? folder.error() : folder.lock();
  if (folder.error() != 0 && error != ENOENT) {
    ::rmdir(path.c_str());
    fail(path, error);
  }
  if (error == ENOENT || error == EWOULDBLOCK || !is_there(path)) return false;
  lock_ = folder.release();
  if (error == 0) return true;
  // this file system has no locks: the name says so, and the folder is left alone for a day
  path_.replace_filename(std::string(no_host) + path.filename().string().substr(host_length));
  if (::rename(path.c_str(), path_.c_str()) == 0) return true;
  const int failed = errno;
  ::rmdir(path.c_str());
  unlock();
  fail(path_, failed);
}

void TemporaryFolder::unlock() {
  if (lock_ < 0) return;
  ::flock(lock_, LOCK_UN);  // a fork may have inherited the open folder
  ::close(std::exchange(lock_, -1));
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;  // the next sweep tries again
  if (!path_.empty()) fs::remove_all(path_, ignored);
  unlock();
}

bool TemporaryFolder::rename_to(const fs::path& target) {
  if (::rename(path_.c_str(), target.c_str()) != 0) {
    if (errno == EEXIST || errno == ENOTEMPTY) return false;
    fail(target, errno);
  }
  path_.clear();
  unlock();
  return true;
}

}  // namespace unisono::support
