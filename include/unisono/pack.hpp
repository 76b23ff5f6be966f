#pragma once
/// Compiles kernels ahead of time, into a folder for machines without a compiler (docs/jit.md). Needs no GPU.

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
  int jobs = 0;  ///< concurrent compilations; 0: one per core
  /// Called with the number of finished kernels and of all.
  std::function<void(std::size_t done, std::size_t total)> progress = {};
};

struct PackReport {
  std::filesystem::path folder;                          ///< absolute
  std::size_t requested = 0, compiled = 0, entries = 0;  ///< kernels requested, compiled, and now in the folder
  std::uint64_t bytes = 0;                               ///< total size of all entries
};

/// Compiles the kernel that compile() would use on an H200. The folder must be absent, empty, or a pack, whose entries
/// are kept. Programs find it by UNISONO_PACKS. Throws UserError and Unsupported as compile() does, UserError for any
/// other folder or one with broken entries, and CompileError.
PackReport pack(const Contraction& contraction, const Graph& graph, const CompileOptions& options,
                const std::filesystem::path& folder, const PackOptions& how = {});

/// Compiles the kernels of a network for these input shapes (as in NetworkExecutable::memory). Throws as above.
PackReport pack(const Network& network, const NetworkOptions& options,
                const std::map<std::string, std::vector<std::int64_t>>& inputs, const std::filesystem::path& folder,
                const PackOptions& how = {});

}  // namespace unisono
