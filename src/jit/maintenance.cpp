#include "jit/maintenance.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <ctime>
#include <system_error>

#include "jit/cache.hpp"
#include "support/files.hpp"
#include "support/hash.hpp"
#include "unisono/error.hpp"

namespace unisono::jit {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t most_file_bytes = std::uint64_t{1} << 30;

/// The bytes of all files below a folder.
std::uint64_t size_of(const fs::path& folder) {
  std::uint64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    struct stat info {};
    if (::lstat(it->path().c_str(), &info) == 0 && S_ISREG(info.st_mode))
      bytes += static_cast<std::uint64_t>(info.st_size);
  }
  return bytes;
}

std::vector<fs::path> items_of(const fs::path& folder) {
  std::vector<fs::path> items;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    items.push_back(it->path());
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    throw UserError(fmt::format("{}: expected a folder of compiled kernels: {}", folder.string(), error.message()));
  }
  return items;
}

Listed look_at(const fs::path& folder) {
  Listed entry{.key = folder.filename().string(),
               .folder = folder,
               .info = std::nullopt,
               .problem = {},
               .bytes = size_of(folder),
               .used = 0};
  struct stat file {};
  if (::stat((folder / info_file).c_str(), &file) == 0 || ::stat(folder.c_str(), &file) == 0)
    entry.used = file.st_mtime;
  auto info = load_info(folder);
  if (auto* good = std::get_if<EntryInfo>(&info)) entry.info = std::move(*good);
  if (const auto* broken = std::get_if<Broken>(&info)) entry.problem = broken->why;
  if (std::holds_alternative<Absent>(info)) entry.problem = "it was removed meanwhile";
  return entry;
}

/// The first thing wrong with an entry's files; empty if there is none.
std::string verify_files(const fs::path& folder, const EntryInfo& info) {
  for (const char* name : {source_name, cubin_file, log_file}) {
    if (!info.files.contains(name)) return fmt::format("{} lists no {}", info_file, name);
  }
  for (const auto& [name, expected] : info.files) {
    const auto read = read_own(folder, name.c_str(), most_file_bytes);
    if (const auto* broken = std::get_if<Broken>(&read)) return broken->why;
    const auto* const bytes = std::get_if<std::string>(&read);
    if (bytes->size() != expected.bytes) {
      return fmt::format("{} has {} bytes, expected {}", name, bytes->size(), expected.bytes);
    }
    if (support::hash(*bytes) != expected.hash) return fmt::format("{} was changed", name);
  }
  return "";
}

class Pruning {
 public:
  explicit Pruning(const fs::path& cache) : cache_(cache) {}

  /// False if the entry stays, which is a problem.
  bool remove(const Listed& entry) try {
    support::make_folders(cache_ / making_folder);
    const fs::path away = cache_ / making_folder / support::unique_name();
    fs::rename(entry.folder, away);  // readers see a whole entry or none
    std::error_code error;           // a sweep may be removing it, too
    fs::remove_all(away, error);
    if (error && fs::exists(fs::symlink_status(away)))
      result.problems.push_back(fmt::format("{}: {}", away.string(), error.message()));
    result.removed.push_back(entry);
    result.bytes += entry.bytes;
    return true;
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::no_such_file_or_directory) return true;  // somebody else removed it
    result.problems.emplace_back(fmt::format("{}: {}", entry.folder.string(), error.what()));
    return false;
  }

  void remove_leftovers() {
    for (const char* name : {broken_folder, failed_folder}) {
      for (const fs::path& item : items_of(cache_ / name)) {
        if (!is_leftover(name, item.filename().string())) continue;
        const std::uint64_t bytes = size_of(item);
        std::error_code error;
        fs::remove_all(item, error);
        if (error) {
          result.problems.push_back(fmt::format("{}: {}", item.string(), error.message()));
          continue;
        }
        result.bytes += bytes;
        ++result.leftovers;
      }
    }
    result.leftovers += support::sweep(cache_ / making_folder);
  }

  Pruned result;

 private:
  const fs::path& cache_;
};

}  // namespace

std::vector<Listed> list_entries(const fs::path& cache) {
  std::vector<Listed> entries;
  for (const fs::path& item : items_of(cache)) {
    if (is_key(item.filename().string())) entries.push_back(look_at(item));
  }
  std::sort(entries.begin(), entries.end(),
            [](const Listed& a, const Listed& b) { return a.used != b.used ? a.used > b.used : a.key < b.key; });
  return entries;
}

std::vector<Listed> verify_entries(const fs::path& cache) {
  std::vector<Listed> entries = list_entries(cache);
  for (Listed& e : entries) {
    if (e.problem.empty() && e.info) e.problem = verify_files(e.folder, *e.info);
  }
  return entries;
}

void remove_workshops(const fs::path& folder) {
  if (const std::string why = why_foreign(folder); !why.empty()) throw UserError(why);
  Pruning(folder).remove_leftovers();
  std::error_code not_empty;  // somebody is at work in it, or something in it is not ours
  for (const char* name : {making_folder, broken_folder, failed_folder}) fs::remove(folder / name, not_empty);
}

Pruned prune_entries(const fs::path& cache, const PruneRule& rule) {
  if (const std::string why = why_foreign(cache); !why.empty()) throw UserError(why);
  std::vector<Listed> entries = verify_entries(cache);
  Pruning pruning(cache);
  const double now = static_cast<double>(std::time(nullptr));
  std::uint64_t kept = 0;
  bool full = false;
  for (const Listed& e : entries) {  // the last used first
    const bool old = rule.older_than && now - static_cast<double>(e.used) > *rule.older_than;
    full = full || (rule.max_bytes && kept + e.bytes > *rule.max_bytes);
    const bool wanted = rule.all || old || full || !e.problem.empty();
    if (wanted && pruning.remove(e)) continue;
    kept += e.bytes;
    ++pruning.result.kept;
  }
  pruning.result.kept_bytes = kept;
  pruning.remove_leftovers();
  return std::move(pruning.result);
}

}  // namespace unisono::jit
