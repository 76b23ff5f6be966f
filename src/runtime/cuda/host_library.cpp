#include "runtime/cuda/host_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>

#include "unisono/error.hpp"

namespace unisono::cuda {
namespace {

std::string error_text() { return std::strerror(errno); }

void write_all(int file, const std::vector<std::byte>& bytes) {
  for (std::size_t at = 0; at < bytes.size();) {
    const ssize_t written = ::write(file, bytes.data() + at, bytes.size() - at);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0)
      throw DeviceError(fmt::format("a library of {} bytes cannot be written: {}", bytes.size(), error_text()));
    at += static_cast<std::size_t>(written);
  }
}

// The linker knows a library by its path, so the file stays open: no other one gets its number.
void* opened(const std::vector<std::byte>& bytes) {
  const int file = ::memfd_create("unisono", MFD_CLOEXEC);
  if (file < 0)
    throw DeviceError(
        fmt::format("cannot make a file in memory for the library of a kernel: memfd_create: {}", error_text()));
  try {
    write_all(file, bytes);
  } catch (...) {
    ::close(file);
    throw;
  }
  const std::string path = fmt::format("/proc/self/fd/{}", file);
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) return library;
  const char* why = ::dlerror();
  const std::string message =
      fmt::format("the library of a kernel cannot be loaded: {}", why == nullptr ? "no reason was given" : why);
  ::close(file);
  throw DeviceError(message);
}

void* symbol(void* library, const std::string& name) {
  if (void* found = ::dlsym(library, name.c_str())) return found;
  throw InternalError(fmt::format("the library of a kernel has no function {}", name));
}

}  // namespace

HostLibrary::HostLibrary(const jit::Binary& binary, const std::string& entry, std::size_t parameter_bytes) {
  void* library = opened(binary.cubin);
  using Bytes = unsigned long long (*)();
  const auto bytes = reinterpret_cast<Bytes>(symbol(library, entry + "_parameter_bytes"));
  run_ = reinterpret_cast<Run>(symbol(library, entry + "_run"));
  text_ = reinterpret_cast<Text>(symbol(library, entry + "_text"));
  if (bytes() != parameter_bytes)
    throw InternalError(fmt::format("the library's kernel takes a parameter of {} bytes, and {} were prepared", bytes(),
                                    parameter_bytes));
}

void HostLibrary::run(const void* parameter, void* stream, const std::string& what) const {
  if (const int status = run_(parameter, stream); status != 0)
    throw DeviceError(fmt::format("{}: {} ({})", what, text_(status), status));
}

std::shared_ptr<const HostLibrary> load_library(const jit::Binary& binary, const std::string& entry,
                                                std::size_t parameter_bytes) {
  static std::mutex mutex;
  static auto& loaded = *new std::map<std::string, std::shared_ptr<const HostLibrary>>;
  const std::lock_guard lock(mutex);
  std::shared_ptr<const HostLibrary>& place = loaded[binary.key];
  if (place != nullptr && !binary.key.empty()) return place;
  place = std::make_shared<const HostLibrary>(binary, entry, parameter_bytes);
  return place;
}

}  // namespace unisono::cuda
