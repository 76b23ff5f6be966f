#pragma once
/// Where binaries are looked for: packs in their order, then the user's cache.

#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "jit/entry.hpp"

namespace coda::jit {

/// Safe to use from several threads.
class Layers {
 public:
  /// `report` hears of a broken entry in a pack: nobody repairs it.
  Layers(std::vector<std::filesystem::path> packs, std::filesystem::path cache,
         std::function<void(const std::string&)> report);

  struct Found {
    std::optional<Loaded> entry;
    std::optional<Broken> broken;  ///< of the user's cache
  };
  Found find(const std::string& key);

  /// By what was compiled, whichever compiler did it: for machines without one. Reads all entries' descriptions once.
  std::optional<Loaded> find_program(const std::string& program);

 private:
  void index();

  std::vector<std::filesystem::path> packs_;
  std::filesystem::path cache_;
  std::function<void(const std::string&)> report_;
  std::mutex mutex_;
  bool indexed_ = false;
  std::map<std::string, std::filesystem::path> programs_;
};

}  // namespace coda::jit
