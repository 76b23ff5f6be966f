#pragma once
/// cuDNN, found and loaded at run time.

#include <filesystem>
#include <string>

#include "plan/expected.hpp"
#include "runtime/cudnn/api.hpp"

namespace unisono::cudnn {

/// A loaded cuDNN; it stays loaded.
struct Library {
  Functions call{};
  std::filesystem::path path;
  std::size_t version = 0;  ///< as cudnnGetVersion() gives it: 91301

  std::string version_text() const;  ///< "9.13.1"
  /// What the library says of its last failure in this thread, once; may be empty.
  std::string last_error() const;
  /// The name of a status, and what the library says of its last failure in this thread.
  std::string text_of(int status) const;
};

/// cuDNN 9.8 or later: $UNISONO_CUDNN, a file or its folder; else libcudnn.so.9 wherever the dynamic linker finds it,
/// which knows what the process has loaded already, LD_LIBRARY_PATH and its cache; else in the CUDA toolkits. Looks
/// again after a refusal, which says where it was looked for and what to do.
plan::Expected<const Library*> library();

/// The same of one file, for tests. Each call loads it.
plan::Expected<Library> load(const std::filesystem::path& file);

}  // namespace unisono::cudnn
