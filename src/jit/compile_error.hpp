#pragma once
/// The messages of CompileError.

#include <filesystem>
#include <string>
#include <vector>

#include "jit/compiler.hpp"

namespace unisono::jit {

/// Where a failed source was kept, or why it could not be.
struct Kept {
  std::filesystem::path source;
  std::string problem;
};

/// A source that does not compile: title, command, path of the source, log (its end, if it is long).
std::string message_of_failure(const Request& request, const Compiled& compiled, const Kept& kept);

/// A source that compiles and has no kernel of the requested name.
std::string message_of_missing_kernel(const Request& request, const std::map<std::string, Resources>& kernels);

/// A compiler that is not on this machine. `looked_at` lists names and places.
std::string message_of_missing_compiler(const std::string& what, const std::vector<std::string>& looked_at,
                                        const std::string& advice);

}  // namespace unisono::jit
