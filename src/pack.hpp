#pragma once
/// Kernels into a folder, once they are known.

#include <filesystem>
#include <vector>

#include "jit/jit.hpp"
#include "unisono/pack.hpp"

namespace unisono {

/// Throws as pack() does.
PackReport pack_requests(const std::vector<jit::Request>& requests, const std::filesystem::path& folder,
                         const PackOptions& how);

}  // namespace unisono
