#include "bench/dynamic_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "support/environment.hpp"
#include "unisono/error.hpp"

namespace unisono::bench {

DynamicLibrary::DynamicLibrary(const std::vector<std::string>& names, const std::filesystem::path& folder) {
  std::vector<std::string> tried;
  for (const std::string& name : names) {
    if (!folder.empty()) tried.push_back((folder / name).string());
    tried.push_back(name);
    for (const auto& toolkit : support::cuda_folders()) tried.push_back((toolkit / "lib64" / name).string());
  }
  for (const std::string& path : tried) {
    handle_ = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ != nullptr) {
      name_ = path;
      return;
    }
  }
  throw UserError(fmt::format("not found: tried {}", fmt::join(tried, ", ")));
}

void* DynamicLibrary::address(const char* symbol) const {
  void* found = ::dlsym(handle_, symbol);
  if (found == nullptr) throw UserError(fmt::format("{} has no function {}", name_, symbol));
  return found;
}

}  // namespace unisono::bench
