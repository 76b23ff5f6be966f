#pragma once
/// Which compiler, and which folders of compiled kernels.

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace unisono::jit {

enum class CompilerKind { nvrtc, nvcc };

struct Settings {
  CompilerKind compiler = CompilerKind::nvrtc;
  std::filesystem::path nvcc;   ///< empty: found by PATH, CUDA_HOME, /usr/local/cuda
  std::filesystem::path nvrtc;  ///< the shared library; empty: found as find_nvrtc() says
  /// CUTLASS's folder, for host libraries; empty: UNISONO_CUTLASS, else the package nvidia-cutlass of Unisono's tools.
  std::filesystem::path cutlass = {};
  std::filesystem::path
      cache;  ///< empty: UNISONO_CACHE_DIR, else XDG_CACHE_HOME/unisono/kernels, else ~/.cache/unisono/kernels
  std::vector<std::filesystem::path> packs;  ///< read-only layers, searched first
  bool installed_packs = true;               ///< after them: those of UNISONO_PACKS, and the installation's
  bool use_cache = true;
  int jobs = 0;  ///< compilations at once; 0: one a core
  /// How long to wait for another process that is at the same kernel before compiling it here too: it may be stopped.
  double lock_seconds = 120;
  /// Hears, once of each kind, of what went wrong without being an error: a cache that cannot be written, a broken
  /// pack. Empty: standard error.
  std::function<void(const std::string&)> warn = {};
};

}  // namespace unisono::jit
