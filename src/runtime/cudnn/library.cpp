#include "runtime/cudnn/library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <optional>
#include <vector>

#include "support/cuda_places.hpp"
#include "support/environment.hpp"

namespace unisono::cudnn {

namespace {

namespace fs = std::filesystem;

constexpr const char* name = "libcudnn.so.9";
constexpr std::size_t oldest = 90800;  // descriptors of devices, by which plans are made where there is no GPU
// Their fused attention has known faults, for which NVIDIA's frontend refuses it
constexpr std::array<std::size_t, 2> faulty{91000, 91001};

constexpr const char* advice =
    "install cuDNN 9.8 or later (package nvidia-cudnn-cu12 or nvidia-cudnn-cu13), or name it by UNISONO_CUDNN, or "
    "choose the attention kernels of Unisono";

std::string version_text_of(std::size_t v) { return fmt::format("{}.{}.{}", v / 10000, v / 100 % 100, v % 100); }

std::string linker_error() {
  const char* error = ::dlerror();
  return error != nullptr ? error : "unknown";
}

fs::path path_of(void* loaded) {
  link_map* map = nullptr;
  return ::dlinfo(loaded, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr ? map->l_name : name;
}

// The first function that the library lacks
class Binding {
 public:
  explicit Binding(void* library) : library_(library) {}
  template <class F>
  void bind(const char* function, F*& to) {
    to = reinterpret_cast<F*>(::dlsym(library_, function));
    if (to == nullptr && !missing_) missing_ = function;
  }
  const std::optional<std::string>& missing() const { return missing_; }

 private:
  void* library_;
  std::optional<std::string> missing_;
};

plan::Expected<Library> bound(void* loaded) {
  Library l{.path = path_of(loaded)};
  Binding b(loaded);
  b.bind("cudnnGetVersion", l.call.GetVersion);
  if (l.call.GetVersion != nullptr) l.version = l.call.GetVersion();
  if (l.call.GetVersion != nullptr && (l.version < oldest || l.version >= 100000))
    return plan::because(fmt::format("{} is cuDNN {}; expected 9.8 or later of version 9: {}", l.path.string(),
                                     l.version_text(), advice));
  if (std::ranges::find(faulty, l.version) != faulty.end())
    return plan::because(
        fmt::format("{} is cuDNN {}, whose attention has known faults: {}", l.path.string(), l.version_text(), advice));
  b.bind("cudnnGetErrorString", l.call.GetErrorString);
  b.bind("cudnnGetLastErrorString", l.call.GetLastErrorString);
  b.bind("cudnnCreate", l.call.Create);
  b.bind("cudnnDestroy", l.call.Destroy);
  b.bind("cudnnSetStream", l.call.SetStream);
  b.bind("cudnnBackendCreateDescriptor", l.call.BackendCreateDescriptor);
  b.bind("cudnnBackendDestroyDescriptor", l.call.BackendDestroyDescriptor);
  b.bind("cudnnBackendSetAttribute", l.call.BackendSetAttribute);
  b.bind("cudnnBackendGetAttribute", l.call.BackendGetAttribute);
  b.bind("cudnnBackendFinalize", l.call.BackendFinalize);
  b.bind("cudnnBackendExecute", l.call.BackendExecute);
  if (b.missing())
    return plan::because(
        fmt::format("{} has no function {}; expected cuDNN 9.8 or later: {}", l.path.string(), *b.missing(), advice));
  return l;
}

plan::Expected<Library> find() {
  if (const std::optional<fs::path> given = support::cudnn_library()) {
    std::error_code ignored;
    return load(fs::is_directory(*given, ignored) ? *given / name : *given);
  }
  std::vector<std::string> tried{name};
  for (const fs::path& toolkit : support::cuda_folders())
    for (const fs::path& folder : support::toolkit_folders(toolkit, "lib")) tried.push_back((folder / name).string());
  for (const std::string& file : tried)
    if (void* loaded = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) return bound(loaded);
  tried[0] += " in the folders of the dynamic linker";
  return plan::because(fmt::format("no cuDNN was found (looked for {}): {}", fmt::join(tried, ", "), advice));
}

}  // namespace

std::string Library::version_text() const { return version_text_of(version); }

std::string Library::last_error() const {
  std::array<char, 2048> last{};
  call.GetLastErrorString(last.data(), last.size() - 1);
  return last.data();
}

std::string Library::text_of(int status) const {
  const std::string more = last_error();
  return more.empty() ? call.GetErrorString(status) : fmt::format("{}: {}", call.GetErrorString(status), more);
}

plan::Expected<Library> load(const fs::path& file) {
  if (void* loaded = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) return bound(loaded);
  return plan::because(fmt::format("cuDNN cannot be loaded: {}; {}", linker_error(), advice));
}

plan::Expected<const Library*> library() {
  static std::mutex mutex;
  static const Library* found = nullptr;  // never destroyed: cuDNN does not bear being unloaded
  const std::lock_guard lock(mutex);
  if (found == nullptr) {
    plan::Expected<Library> now = find();
    if (!now) return std::move(now).refusal();
    found = new Library(*std::move(now));
  }
  return found;
}

}  // namespace unisono::cudnn
