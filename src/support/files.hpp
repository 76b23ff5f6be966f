#pragma once
/// Files that are whole or absent, folders of one process, and the locks of a host.

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace unisono::support {

/// All bytes of a regular file, also of one of /proc; nothing if it cannot be read to its end, is no regular file, or
/// has more than 1 GiB.
std::optional<std::string> read_file(const std::filesystem::path& path);

/// Writes a new file. Throws std::system_error with the path.
void write_file(const std::filesystem::path& path, std::string_view bytes);

/// The same, and waits until it is on the disk. Slow: some milliseconds a file on a busy disk.
void write_synced_file(const std::filesystem::path& path, std::string_view bytes);

/// Waits until the names in a folder are on the disk. Throws std::system_error with the path.
void sync_folder(const std::filesystem::path& folder);

/// Makes a folder and those above it, for this user alone where it does not exist yet. Throws std::system_error.
void make_folders(const std::filesystem::path& folder);

/// A name that nothing else has on any host: 12 digits of the host, 16 drawn at random.
std::string unique_name();

/// Whether a name has the form of a unique_name(), or of those of earlier versions (host-process-start-counter).
bool is_unique_name(std::string_view name);

/// Removes the TemporaryFolders that ended processes left in a folder. A process lives as long as one of its threads
/// holds the lock of its folder. What cannot be asked about (another host's, or made before a restart, where there are
/// no locks, or by an earlier version) is removed a day after it was last changed. Other names stay. Returns how many;
/// errors are ignored.
std::size_t sweep(const std::filesystem::path& folder);

/// A folder with a unique name, locked by this process, removed with all that it holds at the end of its life unless
/// renamed.
class TemporaryFolder {
 public:
  /// Throws std::system_error with the path.
  explicit TemporaryFolder(const std::filesystem::path& parent);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// Renames the folder; false if a folder that is not empty stands there. Throws std::system_error for the rest.
  bool rename_to(const std::filesystem::path& target);

 private:
  /// False: a sweep has taken it already.
  bool make(const std::filesystem::path& path);
  void unlock();

  std::filesystem::path path_;
  int lock_ = -1;  ///< the open folder
};

/// This user's folder of this host for what need not survive a restart, made if absent: XDG_RUNTIME_DIR/unisono, else
/// /tmp/unisono-UID. Nothing if it cannot be made, or belongs to somebody else.
std::optional<std::filesystem::path> host_folder();

/// This user's folder for large files that live as long as a process: unisono-UID/work below TMPDIR or /tmp. Nothing if
/// it cannot be made, or belongs to somebody else.
std::optional<std::filesystem::path> work_folder();

/// flock on a file that is made if absent and never removed, so that no killed process leaves a lock behind.
class FileLock {
 public:
  /// Throws std::system_error with the path if the file cannot be made or opened.
  explicit FileLock(const std::filesystem::path& file);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  /// Tries until it has the lock or `seconds` are over; 0 tries once. Throws std::system_error if there are no locks.
  bool try_lock(double seconds);

 private:
  int file_ = -1;
  std::filesystem::path path_;
};

}  // namespace unisono::support
