#include "support/environment.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <sstream>
#include <string>
#include <system_error>

namespace unisono::support {
namespace {

/// Unset and empty are the same.
std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::vector<std::string> items_of(const char* name, char separator) {
  std::vector<std::string> items;
  std::istringstream list(variable(name));
  for (std::string item; std::getline(list, item, separator);)
    if (!item.empty()) items.push_back(item);
  return items;
}

std::vector<std::filesystem::path> folders_in(const char* name) {
  const std::vector<std::string> folders = items_of(name, ':');
  return {folders.begin(), folders.end()};
}

}  // namespace

std::vector<std::filesystem::path> executable_folders() { return folders_in("PATH"); }

std::vector<std::filesystem::path> library_folders() { return folders_in("LD_LIBRARY_PATH"); }

std::optional<std::filesystem::path> cache_folder() {
  // the XDG base directory specification: a relative path is to be ignored
  if (const std::filesystem::path xdg = variable("XDG_CACHE_HOME"); xdg.is_absolute()) return xdg / "unisono";
  if (const std::filesystem::path home = variable("HOME"); !home.empty()) return home / ".cache" / "unisono";
  return std::nullopt;
}

std::optional<std::filesystem::path> kernel_cache_folder() {
  if (const std::filesystem::path given = variable("UNISONO_CACHE_DIR"); !given.empty()) return given;
  if (const auto folder = cache_folder()) return *folder / "kernels";
  return std::nullopt;
}

std::optional<std::filesystem::path> cutlass_folder() {
  if (const std::filesystem::path given = variable("UNISONO_CUTLASS"); !given.empty()) return given;
  return std::nullopt;
}

std::optional<std::filesystem::path> cudnn_library() {
  if (const std::filesystem::path given = variable("UNISONO_CUDNN"); !given.empty()) return given;
  return std::nullopt;
}

std::string attention_wanted() { return variable("UNISONO_ATTENTION"); }

std::string graph_way() { return variable("UNISONO_GRAPH"); }
std::vector<std::string> host_operators() { return items_of("UNISONO_HOST_STEPS", ','); }

std::string filters_ahead_wanted() { return variable("UNISONO_FILTERS_AHEAD"); }

bool tuning_is_off() { return variable("UNISONO_TUNING") == "off"; }

std::optional<std::filesystem::path> tuning_file() {
  if (tuning_is_off()) return std::nullopt;
  if (const std::filesystem::path given = variable("UNISONO_TUNING"); !given.empty()) return given;
  if (const auto folder = cache_folder()) return *folder / "tuning.db";
  return std::nullopt;
}

std::optional<std::filesystem::path> installed_pack_folder(const std::filesystem::path& binary) {
  const std::filesystem::path folder = binary.parent_path();
  for (const char* place : {UNISONO_INSTALL_LIBDIR, UNISONO_INSTALL_BINDIR}) {
    std::filesystem::path prefix = folder;
    for (int depth = 0; depth < 4 && prefix.has_relative_path(); ++depth) {
      prefix = prefix.parent_path();
      if (prefix / place == folder) return prefix / UNISONO_INSTALL_DATADIR / "unisono" / "kernels";
    }
  }
  return std::nullopt;
}

std::vector<std::filesystem::path> kernel_pack_folders() {
  auto folders = folders_in("UNISONO_PACKS");
  Dl_info here{};
  if (::dladdr(reinterpret_cast<const void*>(&kernel_pack_folders), &here) == 0 || here.dli_fname == nullptr)
    return folders;
  std::error_code failed;
  const std::filesystem::path binary = std::filesystem::canonical(here.dli_fname, failed);
  if (failed) return folders;
  if (auto installed = installed_pack_folder(binary)) folders.push_back(std::move(*installed));
  return folders;
}

std::optional<std::filesystem::path> home_folder() {
  if (std::filesystem::path home = variable("HOME"); home.is_absolute()) return home;
  return std::nullopt;
}

std::optional<std::string> planned_as() { return compiler_variable("UNISONO_PLAN_AS"); }

std::optional<std::string> compiler_variable(const char* name) {
  std::string value = variable(name);
  return value.empty() ? std::nullopt : std::optional(std::move(value));
}

std::optional<std::filesystem::path> session_folder() {
  if (const std::filesystem::path folder = variable("XDG_RUNTIME_DIR"); folder.is_absolute()) return folder;
  return std::nullopt;
}

std::filesystem::path temporary_files_folder() {
  const std::filesystem::path folder = variable("TMPDIR");
  return folder.is_absolute() ? folder : "/tmp";
}

std::vector<std::filesystem::path> cuda_folders() {
  std::vector<std::filesystem::path> folders;
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const std::filesystem::path folder = variable(name); !folder.empty()) folders.push_back(folder);
  }
  folders.emplace_back("/usr/local/cuda");
  return folders;
}

}  // namespace unisono::support
