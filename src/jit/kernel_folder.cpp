#include "jit/kernel_folder.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <system_error>

#include "jit/entry.hpp"
#include "support/files.hpp"
#include "support/printable.hpp"
#include "unisono/error.hpp"

namespace unisono::jit {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view marker_line = "Unisono's compiled kernels, format 1\n";
constexpr std::string_view marker_text =
    "Unisono's compiled kernels, format 1\n"
    "Everything in this folder was made by Unisono and can be made again.\n"
    "`unisono cache prune` removes it; without this file nothing here is removed.\n";

bool is_folder(const fs::path& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

/// The first item that no cache has.
fs::path foreign_item(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name == marker_file) continue;
    const bool entry = is_key(name) && fs::is_regular_file(it->path() / info_file);
    const bool beside = name == making_folder || name == broken_folder || name == failed_folder;
    if (!is_folder(it->path()) || (!entry && !beside)) return it->path();
    if (!beside) continue;
    std::error_code failed;
    for (fs::directory_iterator inner(it->path(), failed), last; !failed && inner != last; inner.increment(failed))
      if (!is_leftover(name, inner->path().filename().string())) return inner->path();
  }
  return {};
}

}  // namespace

bool is_leftover(std::string_view folder, std::string_view name) {
  if (folder == making_folder) return support::is_unique_name(name);
  if (folder == failed_folder) return is_key(name) || support::is_unique_name(name);
  return folder == broken_folder && name.size() > 33 && is_key(name.substr(0, 32)) && name[32] == '-' &&
         support::is_unique_name(name.substr(33));
}

bool is_marked(const fs::path& folder) {
  const auto text = support::read_file(folder / marker_file);
  return text && text->starts_with(marker_line);
}

std::string why_foreign(const fs::path& folder) {
  if (is_marked(folder)) return "";
  struct stat info {};
  const std::string name = support::printable(folder.string());
  if (::lstat((folder / marker_file).c_str(), &info) == 0) {
    if (is_marked(folder)) return "";  // by another process, since the first look
    return fmt::format(
        "'{}' is marked by another version of Unisono ({} cannot be read as one of format 1); name another "
        "folder",
        name, marker_file);
  }
  const fs::path item = foreign_item(folder);
  if (item.empty()) return "";
  return fmt::format(
      "'{}' is not a folder of compiled kernels: it holds '{}', and no file {} that marks it as one. Name a "
      "folder that is empty or does not exist",
      name, support::printable(item.lexically_relative(folder).string()), marker_file);
}

void claim(const fs::path& folder) {
  support::make_folders(folder);
  if (is_marked(folder)) return;
  if (const std::string why = why_foreign(folder); !why.empty()) throw UserError(why);
  // renamed when it is whole; another process may do the same at once
  const support::TemporaryFolder making(folder / making_folder);
  support::write_synced_file(making.path() / marker_file, marker_text);
  if (::rename((making.path() / marker_file).c_str(), (folder / marker_file).c_str()) != 0)
    throw std::system_error(errno, std::generic_category(), (folder / marker_file).string());
  support::sweep(folder / making_folder);  // what a process that was killed here has left
}

}  // namespace unisono::jit
