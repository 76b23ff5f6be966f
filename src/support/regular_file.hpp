#pragma once
/// Files that somebody else may have put there: only regular ones are opened, and opening never waits.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace unisono::support {

/// An open file for reading. A FIFO, a socket, a device or a folder is never opened: its reader might wait for ever,
/// and opening a device may already do something.
class RegularFile {
 public:
  enum class Links { follow, refuse };  ///< whether the last part of a path may be a symbolic link

  /// Throws UserError: "cannot open 'x': No such file or directory", "'x' is a FIFO (…)".
  explicit RegularFile(const std::filesystem::path& path);
  /// Nothing if it cannot be opened; `why` then says so, with the path.
  static std::optional<RegularFile> attempt(const std::filesystem::path& path, std::string& why,
                                            Links links = Links::follow);
  ~RegularFile();
  RegularFile(RegularFile&& other) noexcept;
  RegularFile& operator=(RegularFile&&) = delete;
  RegularFile(const RegularFile&) = delete;
  RegularFile& operator=(const RegularFile&) = delete;

  /// Bytes when it was opened. Files of /proc say 0 and hold more.
  std::uint64_t size() const { return size_; }
  /// Whether this user or root owns it, and nobody else may write to it (trust.hpp).
  bool is_own() const { return own_; }
  /// Reads from `offset` on; fewer bytes only where the file ends. Throws std::system_error with the path.
  std::size_t read(std::uint64_t offset, std::span<std::byte> bytes) const;
  /// All bytes, also of a file that says 0 or grows meanwhile; nothing if there are more than `most`. Throws
  /// std::system_error with the path.
  std::optional<std::string> read_all(std::uint64_t most) const;

 private:
  RegularFile() = default;
  int file_ = -1;
  std::uint64_t size_ = 0;
  bool own_ = false;
  std::filesystem::path path_;
};

/// Why a path that exists is no regular file: "'x' is a socket; expected …". Empty if it is one, or does not exist.
std::string why_not_regular(const std::filesystem::path& path);

/// All bytes of an open descriptor, such as standard input; nothing if there are more than `most`. Throws
/// std::system_error with `name`.
std::optional<std::string> read_stream(int file, std::uint64_t most, const std::string& name);

}  // namespace unisono::support
