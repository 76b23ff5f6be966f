#pragma once
/// Compiling kernels ahead, into a folder that machines without a compiler read (docs/jit.md). It needs no GPU.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "unisono/contraction.hpp"
#include "unisono/executable.hpp"
#include "unisono/graph.hpp"
#include "unisono/network.hpp"

namespace unisono {

struct PackOptions {
  int jobs = 0;  ///< compilations at once; 0: one a core
  /// Called with the number of kernels that are done, and of all.
  std::function<void(std::size_t done, std::size_t total)> progress = {};
};

struct PackReport {
  std::filesystem::path folder;                          ///< absolute
  std::size_t requested = 0, compiled = 0, entries = 0;  ///< kernels asked for, not there before, and in the folder now
  std::uint64_t bytes = 0;                               ///< all entries together
};

/// Compiles the kernel that compile() would, for an H200. The folder is absent, empty or a pack already, which keeps
/// what it has. UNISONO_PACKS names it to programs. Throws UserError and Unsupported as compile() does, UserError for a
/// folder of something else or with broken entries, and CompileError.
PackReport pack(const Contraction& contraction, const Graph& graph, const CompileOptions& options,
                const std::filesystem::path& folder, const PackOptions& how = {});

/// Compiles the kernels of a network for these input shapes (as in NetworkExecutable::memory). Throws likewise.
PackReport pack(const Network& network, const NetworkOptions& options,
                const std::map<std::string, std::vector<std::int64_t>>& inputs, const std::filesystem::path& folder,
                const PackOptions& how = {});

}  // namespace unisono
