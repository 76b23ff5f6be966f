#pragma once
/// What turns source into a cubin. Two compilers are here; tests bring their own.

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "jit/request.hpp"

namespace unisono::jit {

/// What one compilation gave. The kernels are empty exactly if it failed, or was told to make no machine code.
struct Compiled {
  bool accepted = false;  ///< the compiler found no error
  std::vector<std::byte> cubin;
  std::string log;
  std::map<std::string, Resources> kernels;  ///< by name
  std::string command;                       ///< as one would type it, or the nearest to it
};

/// Safe to use from several threads.
class Compiler {
 public:
  virtual ~Compiler() = default;
  /// Tells this compiler, version and build from every other: part of the key. Fast, once it has been asked. Throws
  /// CompileError if there is no such compiler on this machine; says what was looked for, where, and what to do.
  virtual std::string identity() = 0;
  /// For people: "NVRTC 13.0 (/usr/local/cuda/lib64/libnvrtc.so.13)". Throws as identity().
  virtual std::string description() = 0;
  /// The options that are always given, for this architecture; part of the key.
  virtual std::vector<std::string> options(const std::string& arch) const = 0;
  /// What of the environment goes into the binary: "NVCC_APPEND_FLAGS=-G"; part of the key.
  virtual std::vector<std::string> environment() const { return {}; }
  /// Source that does not compile is no exception. Throws CompileError if the compiler cannot be run.
  virtual Compiled compile(const Request& request) = 0;
};

std::shared_ptr<Compiler> make_nvrtc(const std::filesystem::path& library);
std::shared_ptr<Compiler> make_nvcc(const std::filesystem::path& nvcc);
/// For requests of host libraries; `cutlass` as Settings::cutlass.
std::shared_ptr<Compiler> make_host_library_compiler(const std::filesystem::path& nvcc,
                                                     const std::filesystem::path& cutlass);

/// All that a compiler is given after its own name: its options, then the request's.
std::vector<std::string> all_options(const Compiler& compiler, const Request& request);

/// The name under which a source is compiled and kept.
inline constexpr const char* source_name = "source.cu";

}  // namespace unisono::jit
