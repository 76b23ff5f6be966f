#include "media/file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <system_error>

#include "support/printable.hpp"
#include "support/regular_file.hpp"
#include "unisono/error.hpp"

namespace unisono::media {
namespace {

[[noreturn]] void refuse(const std::filesystem::path& path, std::string_view action, int error) {
  throw UserError(fmt::format("cannot {} '{}': {}", action, support::printable(path.string()),
                              std::generic_category().message(error)));
}

std::vector<std::uint8_t> whole(const std::optional<std::string>& bytes, const std::string& name,
                                const Limits& limits) {
  if (!bytes) throw UserError(fmt::format("{} is larger than {} bytes, the limit for one file", name, limits.bytes));
  return {bytes->begin(), bytes->end()};
}

}  // namespace

std::vector<std::uint8_t> read_file(const std::filesystem::path& path, const Limits& limits) {
  const support::RegularFile file(path);
  const std::string name = "'" + support::printable(path.string()) + "'";
  try {
    return whole(file.read_all(static_cast<std::uint64_t>(limits.bytes)), name, limits);
  } catch (const std::system_error& error) {
    refuse(path, "read", error.code().value());
  }
}

std::vector<std::uint8_t> read_standard_input(const Limits& limits) try {
  return whole(support::read_stream(STDIN_FILENO, static_cast<std::uint64_t>(limits.bytes), "standard input"),
               "standard input", limits);
} catch (const std::system_error& error) {
  throw UserError(fmt::format("cannot read standard input: {}", error.code().message()));
}

void write_file(const std::filesystem::path& path, std::span<const std::uint8_t> bytes) {
  write_file(path, std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

void write_file(const std::filesystem::path& path, std::string_view text) try {
  support::replace_file(path, text);
} catch (const std::system_error& error) {
  refuse(path, "write", error.code().value());
}

void WrittenFiles::write(const std::filesystem::path& path, std::span<const std::uint8_t> bytes) {
  write(path, std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

void WrittenFiles::write(const std::filesystem::path& path, std::string_view text) try {
  files_.write(path, text);
} catch (const std::system_error& error) {
  refuse(path, "write", error.code().value());
}

void WrittenFiles::commit() try { files_.commit(); } catch (const std::system_error& error) {
  throw UserError(fmt::format("cannot write {}", support::printable(error.what())));
}

void make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error && !std::filesystem::is_directory(folder, error) && !error)
    error = std::make_error_code(std::errc::not_a_directory);
  if (error) throw UserError(fmt::format("cannot make the folder '{}': {}", folder.string(), error.message()));
}

}  // namespace unisono::media
