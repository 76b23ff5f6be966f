#pragma once
/// From CUDA C++ text to a cubin, by way of a cache on disk. Knows no graph and no plan.

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "jit/request.hpp"
#include "jit/settings.hpp"

namespace unisono::jit {

struct Binary {
  std::vector<std::byte> cubin;
  Resources resources;
  std::string key;              ///< hash of (source, headers, compiler and its build, options, arch), 32 hex digits
  bool cached = false;          ///< it was in the cache
  double seconds = 0;           ///< until it was there
  std::filesystem::path entry;  ///< folder of the entry; empty if the cache is off
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
