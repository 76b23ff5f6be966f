#pragma once
/// A shared object that launches its own kernel, as codegen::Library describes it.

#include <cstddef>
#include <memory>
#include <string>

#include "jit/jit.hpp"

namespace unisono::cuda {

class HostLibrary {
 public:
  /// Loads it from memory: what runs is what the cache has checked, whatever happens to the file. It stays loaded for
  /// as long as the process runs, as kernels of its own may be in flight. Throws DeviceError if it cannot be loaded,
  /// InternalError for one that is none, or takes another parameter.
  HostLibrary(const jit::Binary& binary, const std::string& entry, std::size_t parameter_bytes);

  /// Enqueues a launch with this parameter, which is read before this returns; the GPU's context is current. Throws
  /// DeviceError with `what` and the reason.
  void run(const void* parameter, void* stream, const std::string& what) const;

 private:
  using Run = int (*)(const void*, void*);
  using Text = const char* (*)(int);
  Run run_ = nullptr;
  Text text_ = nullptr;
};

/// Loads a binary, or shares it with the executables that have it loaded.
std::shared_ptr<const HostLibrary> load_library(const jit::Binary& binary, const std::string& entry,
                                                std::size_t parameter_bytes);

}  // namespace unisono::cuda
