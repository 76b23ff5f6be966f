#include "support/cuda_places.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <mutex>
#include <system_error>

namespace unisono::support {
namespace {

namespace fs = std::filesystem;

/// The folders in `folder`, sorted; none if it cannot be read.
std::vector<fs::path> folders_below(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code failed;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed))
    found.push_back(at->path());
  std::ranges::sort(found);
  return found;
}

struct PythonPackages {
  std::mutex mutex;
  std::vector<fs::path> folders;
};

PythonPackages& python_packages() {
  static PythonPackages all;
  return all;
}

}  // namespace

std::vector<fs::path> toolkit_folders(const fs::path& toolkit, const std::string& part) {
  std::vector<fs::path> found;
  if (part == "lib") found.push_back(toolkit / "lib64");
  found.push_back(toolkit / part);
  for (const fs::path& target : folders_below(toolkit / "targets")) found.push_back(target / part);
  return found;
}

std::vector<fs::path> nvidia_package_folders(const fs::path& packages) {
  std::vector<fs::path> found;
  for (const fs::path& package : folders_below(packages / "nvidia")) {
    std::error_code ignored;
    if (fs::is_directory(package / "lib", ignored)) found.push_back(package / "lib");
  }
  return found;
}

fs::path packages_of(const fs::path& binary) {
  const fs::path place = binary.parent_path(), package = place.parent_path();
  const bool is_ours = package.filename() == "unisono" && (place.filename() == "lib" || place.filename() == "bin");
  return is_ours ? package.parent_path() : fs::path();
}

void add_python_packages(const fs::path& packages) {
  PythonPackages& all = python_packages();
  const std::lock_guard lock(all.mutex);
  if (std::ranges::find(all.folders, packages) == all.folders.end()) all.folders.push_back(packages);
}

std::vector<fs::path> python_library_folders() {
  PythonPackages& all = python_packages();
  std::vector<fs::path> packages;
  {
    const std::lock_guard lock(all.mutex);
    packages = all.folders;
  }
  Dl_info here{};
  if (::dladdr(reinterpret_cast<const void*>(&python_library_folders), &here) != 0 && here.dli_fname != nullptr) {
    std::error_code failed;
    const fs::path own = packages_of(fs::canonical(here.dli_fname, failed));
    if (!failed && !own.empty() && std::ranges::find(packages, own) == packages.end()) packages.push_back(own);
  }
  std::vector<fs::path> found;
  for (const fs::path& folder : packages)
    for (fs::path& one : nvidia_package_folders(folder)) found.push_back(std::move(one));
  return found;
}

}  // namespace unisono::support
