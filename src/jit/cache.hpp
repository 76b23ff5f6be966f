#pragma once
/// The user's layer: what is written, and how.

#include <filesystem>
#include <string>

#include "jit/compile_error.hpp"
#include "jit/compiler.hpp"
#include "jit/entry.hpp"
#include "jit/kernel_folder.hpp"

namespace unisono::jit {

/// How many broken entries and failed sources are kept: the newest.
inline constexpr std::size_t kept_at_most = 32;

/// What is put on the disk.
struct Product {
  const Request& request;
  const Compiled& compiled;
  EntryInfo info;  ///< without its files
};

/// Safe to use from several threads and processes.
class Cache {
 public:
  explicit Cache(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// Makes the entry, whole or not at all. One that another host has made meanwhile stays, if it can be used. Returns
  /// its folder. Throws std::system_error: disk full, folder read-only, …; UserError for a folder that is not ours.
  std::filesystem::path publish(const Product& product) const;
  /// Moves an entry that cannot be used out of the way. Throws as publish().
  void move_aside(const std::string& key) const;
  /// Removes what ended processes have left in a folder that is marked.
  void sweep() const;

 private:
  std::filesystem::path folder_;
};

/// Keeps the source and the log of a failed compilation below `folder`, under the key; else below work_folder().
Kept keep_failed(const std::filesystem::path& folder, const std::string& key, const Request& request,
                 const Compiled& compiled);

/// Removes all but the newest leftovers of `broken` or `failed`, by time of change.
void keep_newest(const std::filesystem::path& folder, std::size_t count);

}  // namespace unisono::jit
