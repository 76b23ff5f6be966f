#pragma once
/// One of the processes of the storm.

#include <filesystem>
#include <string>
#include <vector>

#include "jit/jit.hpp"

namespace unisono::storm {

struct Options {
  std::string compiler = "fake";  ///< or "nvrtc"
  int kernels = 16;
};

/// The kernels of a round.
std::vector<jit::Request> requests(const Options& options);

/// Compiles all of them with the cache in `folder`; appends "start TITLE" and "done TITLE" to `log`. Waits for the end
/// of standard input first. Returns the exit code; says on standard error what went wrong.
int work(const Options& options, const std::filesystem::path& folder, const std::filesystem::path& log);

}  // namespace unisono::storm
