#pragma once
/// Whole files in memory, with a bound on their size and every error checked.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "support/replace_file.hpp"

namespace unisono::media {

/// What a reader accepts. A file beyond it is refused before memory is taken for it.
struct Limits {
  std::int64_t pixels = std::int64_t{64} << 20;  ///< most pixels of one image
  std::int64_t bytes = std::int64_t{1} << 30;    ///< most bytes of a file, and of what it decodes to
};

/// The bytes of `path`, a regular file: pipes, sockets and devices are refused, as their reader may wait for ever.
/// Throws UserError if it cannot be read or holds more than `limits.bytes`.
std::vector<std::uint8_t> read_file(const std::filesystem::path& path, const Limits& limits = {});

/// The bytes of standard input to its end, whatever it is. Throws as read_file.
std::vector<std::uint8_t> read_standard_input(const Limits& limits = {});

/// Writes `bytes` as the whole of `path` (support::replace_file); folders on the way must exist. Throws UserError if a
/// write fails (no permission, disk full, …); an earlier file is then still there.
void write_file(const std::filesystem::path& path, std::span<const std::uint8_t> bytes);
void write_file(const std::filesystem::path& path, std::string_view text);

/// Files that are written together (support::FileReplacements): earlier ones stay until commit(), and all new ones are
/// on the disk before the first of them takes its name. Throws as write_file.
class WrittenFiles {
 public:
  void write(const std::filesystem::path& path, std::span<const std::uint8_t> bytes);
  void write(const std::filesystem::path& path, std::string_view text);
  void commit();

 private:
  support::FileReplacements files_;
};

/// Makes the folder and those above it. Throws UserError if that fails.
void make_folder(const std::filesystem::path& folder);

}  // namespace unisono::media
