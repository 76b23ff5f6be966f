#pragma once
/// From CUDA C++ text to a cubin, by way of a cache on disk. Knows no graph and no plan.

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace unisono::jit {

enum class CompilerKind { nvrtc, nvcc };

struct Header {
  std::string_view name, text;  ///< as it stands in an #include
};

struct Request {
  std::string source;
  std::span<const Header> headers;        ///< the text of everything that source may include; must outlive the request
  std::string entry;                      ///< the kernel whose resources are reported
  std::string title;                      ///< for progress, logs and `unisono cache list`
  std::vector<std::string> options = {};  ///< further compiler options, such as -DUNISONO_WATCHDOG
  std::string arch = {};                  ///< that of the device that it will run on; InternalError without
};

/// What the assembler says of the kernel.
struct Resources {
  int registers = 0;
  std::size_t spill_store_bytes = 0, spill_load_bytes = 0, stack_bytes = 0, static_shared_bytes = 0;
  std::size_t injected_waits = 0;  ///< fences and waits that it added between matrix instructions (wgmma)
};

struct Binary {
  std::vector<std::byte> cubin;
  Resources resources;
  std::string key;              ///< hash of (source, headers, compiler and its build, options, arch), 32 hex digits
  bool cached = false;          ///< it was in the cache
  double seconds = 0;           ///< until it was there
  std::filesystem::path entry;  ///< folder of the entry; empty if the cache is off
};

struct Settings {
  CompilerKind compiler = CompilerKind::nvrtc;
  std::filesystem::path nvcc;  ///< empty: found by PATH, CUDA_HOME, /usr/local/cuda
  std::filesystem::path
      nvrtc;  ///< the shared library; empty: found by CUDA_HOME, LD_LIBRARY_PATH, /usr/local/cuda, the linker
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

/// Called from one thread at a time: how many of how many are done, and the title of the one that just ended.
using Progress = std::function<void(std::size_t done, std::size_t total, const std::string& title)>;

class Compiler;

/// The compiler that `settings` names, for people: "NVRTC 13.0 (/usr/local/cuda/lib64/libnvrtc.so.13)". Throws
/// CompileError if it is not on this machine.
std::string description_of(const Settings& settings);

/// Safe to use from several threads; several processes may share a cache.
class Jit {
 public:
  explicit Jit(Settings settings = {});
  /// With a compiler of the caller's instead of the one that `settings` names.
  Jit(Settings settings, std::shared_ptr<Compiler> compiler);
  ~Jit();
  /// Throws CompileError: a source that does not compile (command, log, path of the source), a binary without the
  /// kernel `entry`, or no compiler on this machine (what was looked for, where, what to do) where neither a pack nor
  /// the cache has the kernel. A cache that cannot be written is a warning; the kernel is compiled and returned all the
  /// same.
  Binary compile(const Request& request);
  /// All of them, in parallel; equal requests once. Throws the first error after the others have ended.
  std::vector<Binary> compile(std::span<const Request> requests, const Progress& progress = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace unisono::jit
