#include "support/environment.hpp"

#include <cstdlib>
#include <sstream>
#include <string>

namespace coda::support {
namespace {

/// Unset and empty are the same.
std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::vector<std::filesystem::path> executable_folders() {
  std::vector<std::filesystem::path> folders;
  std::istringstream path(variable("PATH"));
  for (std::string folder; std::getline(path, folder, ':');) {
    if (!folder.empty()) folders.emplace_back(folder);
  }
  return folders;
}

std::optional<std::filesystem::path> cache_folder() {
  // the XDG base directory specification: a relative path is to be ignored
  if (const std::filesystem::path xdg = variable("XDG_CACHE_HOME"); xdg.is_absolute()) return xdg / "coda";
  if (const std::filesystem::path home = variable("HOME"); !home.empty()) return home / ".cache" / "coda";
  return std::nullopt;
}

}  // namespace coda::support
