#pragma once
/// The one place that reads the environment.

#include <filesystem>
#include <optional>
#include <vector>

namespace coda::support {

/// The folders of PATH, in order.
std::vector<std::filesystem::path> executable_folders();

/// The folder for what Coda keeps between runs: $XDG_CACHE_HOME/coda, else $HOME/.cache/coda; nothing if neither
/// variable is set.
std::optional<std::filesystem::path> cache_folder();

}  // namespace coda::support
