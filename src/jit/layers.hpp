#pragma once
/// Where binaries are looked for: packs in their order, then the user's cache.

#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "jit/entry.hpp"

namespace unisono::jit {

/// Safe to use from several threads.
class Layers {
 public:
  /// `report` hears of a broken entry in a pack: nobody repairs it.
  Layers(std::vector<std::filesystem::path> packs, std::filesystem::path cache,
         std::function<void(const std::string&)> report);

  struct Found {
    std::optional<Loaded> entry;
    std::optional<Broken> broken;  ///< a broken entry of the user's cache
  };
  /// In the user's cache.
  Found find(const std::string& key);

  /// In the packs, by what was compiled, whichever compiler did it (but not with flags from its environment): packs
  /// come from other machines. Reads the descriptions of all their entries once.
  std::optional<Loaded> find_packed(const std::string& program);

  /// What the packs hold, once find_packed() has read it.
  struct Packed {
    std::size_t entries = 0;
    std::set<std::string> headers;  ///< EntryInfo::headers of their entries
    std::string folders;            ///< with commas between; empty without a pack
  };
  Packed packed();

  /// The same in the user's cache, for machines without a compiler.
  std::optional<Loaded> find_program(const std::string& program);

 private:
  /// Entries by program; of several, those of the first folder.
  struct Index {
    bool read = false;
    std::set<std::string> headers;
    std::map<std::string, std::filesystem::path> programs;
  };
  void report_of(const std::filesystem::path& entry, const std::string& why) const;
  std::optional<std::filesystem::path> look_up(Index& index, const std::vector<std::filesystem::path>& folders,
                                               const std::string& program);

  std::vector<std::filesystem::path> packs_;
  std::filesystem::path cache_;
  std::function<void(const std::string&)> report_;
  std::mutex mutex_;
  Index packed_, cached_;
};

}  // namespace unisono::jit
