#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <string>
#include <system_error>
#include <thread>

#include "support/environment.hpp"
#include "support/files.hpp"

namespace unisono::support {
namespace {

/// A folder that somebody else may write to, or has put there, is of no use for locks.
bool is_ours(const std::filesystem::path& folder) {
  struct stat info {};
  return ::lstat(folder.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == ::geteuid() &&
         (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

std::optional<std::filesystem::path> made(const std::filesystem::path& folder) {
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return std::nullopt;
  return is_ours(folder) && ::access(folder.c_str(), W_OK | X_OK) == 0 ? std::optional(folder) : std::nullopt;
}

std::string user_folder() { return "unisono-" + std::to_string(::geteuid()); }

}  // namespace

std::optional<std::filesystem::path> host_folder() {
  if (const auto session = session_folder()) {
    if (auto folder = made(*session / "unisono")) return folder;
  }
  return made(std::filesystem::path("/tmp") /
              user_folder());  // not TMPDIR: all processes of this user are to meet there
}

std::optional<std::filesystem::path> work_folder() {
  const auto folder = made(temporary_files_folder() / user_folder());
  return folder ? made(*folder / "work") : std::nullopt;
}

FileLock::FileLock(const std::filesystem::path& file) : path_(file) {
  file_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file_ < 0) throw std::system_error(errno, std::generic_category(), file.string());
}

FileLock::~FileLock() {
  // closing would do, unless the process has forked meanwhile: the lock belongs to the open file, which both then have
  ::flock(file_, LOCK_UN);
  ::close(file_);
}

bool FileLock::try_lock(double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  auto pause = std::chrono::microseconds(200);
  while (::flock(file_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) throw std::system_error(errno, std::generic_category(), path_.string());
    if (Clock::now() >= end) return false;
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(10000));
  }
  return true;
}

}  // namespace unisono::support
