#pragma once
/// The toolkit's command nvcc: where it is, which it is, and how it is run.

#include <filesystem>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "jit/request.hpp"
#include "support/subprocess.hpp"

namespace unisono::jit {

class NvccProgram {
 public:
  struct Found {
    std::filesystem::path path;
    std::string version;  ///< "V13.0.88, Build cuda_13.0.r13.0/compiler.36424714_0"
  };

  /// Empty: found by PATH, CUDA_HOME, /usr/local/cuda.
  explicit NvccProgram(std::filesystem::path nvcc) : given_(std::move(nvcc)) {}
  /// Looked for once. Throws CompileError if there is none.
  const Found& found();
  /// What of the environment goes into the binary: "NVCC_APPEND_FLAGS=-G".
  static std::vector<std::string> environment();

 private:
  std::filesystem::path given_;
  std::mutex mutex_;
  std::optional<Found> found_;
};

/// Where folders to compile in are made. Throws CompileError if there is no such place.
std::filesystem::path compile_parent();

/// Writes the headers as files. Their names are part of #include lines, so they are relative and stay in the folder.
void write_headers(const std::filesystem::path& folder, std::span<const Header> headers);

/// Runs a command of nvcc's in `folder`, without the variables that lead its host compiler elsewhere.
support::Outcome run_nvcc(const std::vector<std::string>& command, const std::filesystem::path& folder);

/// A file's bytes; none if it cannot be read.
std::vector<std::byte> bytes_of(const std::filesystem::path& file);

/// As one would type it, with NvccProgram::environment().
std::string command_text(const std::vector<std::string>& command);

}  // namespace unisono::jit
