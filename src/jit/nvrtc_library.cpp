#include "jit/nvrtc_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <array>

#include "jit/build_id.hpp"
#include "jit/compile_error.hpp"
#include "support/cuda_places.hpp"
#include "support/environment.hpp"
#include "unisono/error.hpp"

namespace unisono::jit {
namespace {

namespace fs = std::filesystem;

constexpr std::array<const char*, 3> names{"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};

constexpr const char* nvrtc_advice =
    "Install it: `pip install nvidia-cuda-nvrtc` (for a driver of CUDA 12: nvidia-cuda-nvrtc-cu12), or the CUDA "
    "toolkit "
    "12.3 or later (package cuda-nvrtc). Or set CUDA_HOME to the toolkit's folder, or choose nvcc as the compiler; "
    "kernels that are in a pack or in the cache need none.";

/// In the order in which they are tried: what the environment names, Python's packages, the system.
std::vector<fs::path> folders() {
  std::vector<fs::path> result;
  const auto add = [&](const std::vector<fs::path>& more) { result.insert(result.end(), more.begin(), more.end()); };
  const std::vector<fs::path> toolkits = support::cuda_folders();
  for (std::size_t i = 0; i + 1 < toolkits.size(); ++i) add(support::toolkit_folders(toolkits[i], "lib"));
  add(support::library_folders());
  add(support::python_library_folders());
  add(support::toolkit_folders(toolkits.back(), "lib"));
  return result;
}

/// Asks the dynamic linker, which knows more places: its cache, and what is loaded already.
fs::path ask_linker(const char* name) {
  void* library = ::dlopen(name, RTLD_LAZY | RTLD_LOCAL);
  link_map* map = nullptr;
  if (library == nullptr || ::dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr) return {};
  return map->l_name;
}

template <class F>
void bind(void* library, const fs::path& path, const char* name, F*& function) {
  function = reinterpret_cast<F*>(::dlsym(library, name));
  if (function == nullptr) {
    throw CompileError(fmt::format("{} has no function {}: expected NVRTC of CUDA 12.3 or later", path.string(), name));
  }
}

}  // namespace

NvrtcFile find_nvrtc(const fs::path& given) {
  std::vector<std::string> looked_at;
  if (!given.empty()) {
    if (std::string id = build_id(given); !id.empty()) return {given, id};
    throw CompileError(
        fmt::format("{}: expected NVRTC; the file cannot be read, or is not a shared library", given.string()));
  }
  for (const fs::path& folder : folders()) {
    for (const char* name : names) {
      if (std::string id = build_id(folder / name); !id.empty()) return {folder / name, id};
    }
    looked_at.push_back((folder / "libnvrtc.so[.13|.12]").string());
  }
  for (const char* name : names) {
    if (const fs::path path = ask_linker(name); !path.empty()) return {path, build_id(path)};
  }
  looked_at.push_back("the folders of the dynamic linker (ldconfig -p)");
  throw CompileError(message_of_missing_compiler("NVRTC", looked_at, nvrtc_advice));
}

NvrtcFunctions load_nvrtc(const fs::path& path) {
  void* library = ::dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) throw CompileError(fmt::format("NVRTC cannot be loaded: {}\n{}", ::dlerror(), nvrtc_advice));
  NvrtcFunctions f{};
  bind(library, path, "nvrtcGetErrorString", f.GetErrorString);
  bind(library, path, "nvrtcVersion", f.Version);
  bind(library, path, "nvrtcCreateProgram", f.CreateProgram);
  bind(library, path, "nvrtcCompileProgram", f.CompileProgram);
  bind(library, path, "nvrtcDestroyProgram", f.DestroyProgram);
  bind(library, path, "nvrtcGetProgramLogSize", f.GetProgramLogSize);
  bind(library, path, "nvrtcGetProgramLog", f.GetProgramLog);
  bind(library, path, "nvrtcGetCUBINSize", f.GetCUBINSize);
  bind(library, path, "nvrtcGetCUBIN", f.GetCUBIN);
  return f;
}

}  // namespace unisono::jit
