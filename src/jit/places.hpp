#pragma once
/// Which folders kernels are taken from: only those that nobody but this user and root can have written.

#include <filesystem>
#include <string>
#include <vector>

#include "jit/settings.hpp"

namespace unisono::jit {

struct KernelFolder {
  std::filesystem::path folder;
  std::string refused = {};  ///< why it is not used; empty: it is
};

struct KernelFolders {
  KernelFolder cache;               ///< without folder: there is none
  std::vector<KernelFolder> packs;  ///< in the order of search; those that do not exist are left out
};

/// Throws UserError if a folder that the settings name is refused. Those of the environment and of the installation are
/// left out then, and `refused` says why.
KernelFolders kernel_folders_of(const Settings& settings);

/// Throws UserError if what lies in the folder may be somebody else's. What the user has named is refused, not left
/// out.
void require_own(const std::filesystem::path& folder);

}  // namespace unisono::jit
