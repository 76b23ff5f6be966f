#pragma once
/// What `unisono cache` does with a folder of entries: the user's cache, or a pack.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "jit/entry.hpp"

namespace unisono::jit {

/// An entry as it lies on the disk.
struct Listed {
  std::string key;
  std::filesystem::path folder;
  std::optional<EntryInfo> info;  ///< nothing if its description cannot be read
  std::string problem;            ///< empty: nothing found wrong
  std::uint64_t bytes = 0;        ///< size of all its files
  std::int64_t used = 0;          ///< last use, to the hour, in seconds since 1970
};

/// All entries, last used first. Descriptions are read, binaries are not. A folder that does not exist has none; throws
/// UserError if it cannot be read.
std::vector<Listed> list_entries(const std::filesystem::path& cache);

/// As list_entries, with every file compared with its size and hash.
std::vector<Listed> verify_entries(const std::filesystem::path& cache);

/// What goes. Entries that fail verification, and what ended processes have left, go always.
struct PruneRule {
  bool all = false;
  std::optional<double> older_than = {};        ///< seconds since the last use
  std::optional<std::uint64_t> max_bytes = {};  ///< the longest unused go until the rest is no larger
};

struct Pruned {
  std::vector<Listed> removed;
  std::uint64_t bytes = 0;  ///< size of all that was removed
  std::uint64_t kept_bytes = 0;
  std::size_t kept = 0,
              leftovers = 0;  ///< leftovers: broken entries set aside, failed sources, folders of ended processes
  std::vector<std::string> problems;  ///< what could not be removed, and why
};

/// Safe beside processes that read and write the cache: an entry is renamed away before it is removed. Throws UserError
/// for a folder that is no cache and no pack; nothing in it is touched then.
Pruned prune_entries(const std::filesystem::path& cache, const PruneRule& rule);

/// Removes the folders beside the entries, which a pack does not need. Throws as prune_entries().
void remove_workshops(const std::filesystem::path& folder);

}  // namespace unisono::jit
