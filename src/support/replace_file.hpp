#pragma once
/// Results that replace an earlier one as a whole, or leave it as it was.

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

namespace unisono::support {

/// Writes `bytes` as the whole of `path`: into a file beside it, which is on the disk before it takes the name. An
/// earlier file keeps its mode, a symbolic link its target. What is no regular file (/dev/stdout, a FIFO), or stands in
/// a folder where nothing can be renamed, is written in place. Throws std::system_error with the path; what stood there
/// is then unchanged, unless it was written in place.
void replace_file(const std::filesystem::path& path, std::string_view bytes);

/// Files that replace earlier ones together, each as replace_file does: until commit() all stand beside their targets,
/// and one wait for the disk serves all of them, which takes milliseconds a file otherwise. What is written in place is
/// written at once.
class FileReplacements {
 public:
  FileReplacements();
  /// Removes what has not been committed.
  ~FileReplacements();
  FileReplacements(const FileReplacements&) = delete;
  FileReplacements& operator=(const FileReplacements&) = delete;

  /// Throws std::system_error with the path.
  void write(const std::filesystem::path& path, std::string_view bytes);
  /// Waits until all are on the disk, and only then lets them take their names, one after the other. Throws
  /// std::system_error with the path.
  void commit();

 private:
  class Beside;
  std::ptrdiff_t in_file_system(dev_t device) const;

  std::vector<std::unique_ptr<Beside>> files_;
};

}  // namespace unisono::support
