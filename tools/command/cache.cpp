// `unisono cache`: the compiled kernels that are kept on disk.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "command/commands.hpp"
#include "command/json.hpp"
#include "command/output.hpp"
#include "command/quantities.hpp"
#include "jit/maintenance.hpp"
#include "jit/places.hpp"
#include "support/environment.hpp"
#include "unisono/error.hpp"

namespace unisono::command {
namespace {

using nlohmann::json;

std::filesystem::path folder_of(const CacheOptions& options) {
  const auto folder = options.folder.empty() ? support::kernel_cache_folder() : options.folder;
  if (!folder) {
    throw UserError(
        "no cache folder: none of UNISONO_CACHE_DIR, XDG_CACHE_HOME and HOME is set; set one, or give --folder");
  }
  return std::filesystem::absolute(*folder);
}

double seconds_since(std::int64_t time) { return static_cast<double>(std::time(nullptr) - time); }

/// The most registers of a kernel and the spills of all.
struct Resources {
  int registers = 0;
  std::size_t spills = 0;
};

Resources resources_of(const jit::EntryInfo& info) {
  Resources s;
  for (const auto& [name, r] : info.kernels) {
    s.registers = std::max(s.registers, r.registers);
    s.spills += r.spill_store_bytes + r.spill_load_bytes;
  }
  return s;
}

json to_json(const jit::Resources& r) {
  return {{"registers", r.registers},
          {"spill_store_bytes", r.spill_store_bytes},
          {"spill_load_bytes", r.spill_load_bytes},
          {"injected_waits", r.injected_waits},
          {"stack_bytes", r.stack_bytes},
          {"static_shared_bytes", r.static_shared_bytes}};
}

json to_json(const jit::Listed& entry) {
  json j = {{"key", entry.key}, {"path", entry.folder.string()}, {"bytes", entry.bytes}, {"used", entry.used}};
  j["problem"] = entry.problem.empty() ? json(nullptr) : json(entry.problem);
  if (!entry.info) return j;
  const jit::EntryInfo& info = *entry.info;
  j["title"] = info.title;
  j["compiler"] = info.compiler;
  j["arch"] = info.arch;
  j["options"] = info.options;
  j["created"] = info.created;
  j["compile_seconds"] = info.seconds;
  for (const auto& [name, resources] : info.kernels) j["kernels"][name] = to_json(resources);
  return j;
}

json to_json(const std::vector<jit::Listed>& entries) {
  json array = json::array();
  for (const jit::Listed& e : entries) array.push_back(to_json(e));
  return array;
}

std::uint64_t bytes_of(const std::vector<jit::Listed>& entries) {
  std::uint64_t bytes = 0;
  for (const jit::Listed& e : entries) bytes += e.bytes;
  return bytes;
}

std::string count_text(std::size_t count) { return fmt::format("{} {}", count, count == 1 ? "entry" : "entries"); }

std::string to_text(const std::vector<jit::Listed>& entries) {
  Table table({"title", "key", "age", "used", "size", "registers", "spills"},
              {false, false, true, true, true, true, true});
  for (const jit::Listed& e : entries) {
    const std::string key = e.key.substr(0, 12), used = age_text(seconds_since(e.used)), size = size_text(e.bytes);
    if (e.info) {
      const Resources s = resources_of(*e.info);
      table.row({e.info->title, key, age_text(seconds_since(e.info->created)), used, size, std::to_string(s.registers),
                 s.spills == 0 ? "none" : size_text(s.spills)});
    } else {
      table.row({"(broken)", key, "", used, size, "", ""});
    }
  }
  return table.text();
}

int list(const CacheOptions& options, const std::filesystem::path& folder) {
  const auto entries = jit::list_entries(folder);
  if (options.json) {
    print(dump({{"folder", folder.string()}, {"bytes", bytes_of(entries)}, {"entries", to_json(entries)}}));
    return 0;
  }
  if (!entries.empty()) print(to_text(entries) + "\n");
  print(fmt::format("{}, {}, in {}\n", count_text(entries.size()), size_text(bytes_of(entries)), folder.string()));
  return 0;
}

int verify(const CacheOptions& options, const std::filesystem::path& folder) {
  const auto entries = jit::verify_entries(folder);
  const auto broken = std::count_if(entries.begin(), entries.end(), [](const auto& e) { return !e.problem.empty(); });
  if (options.json) {
    print(dump({{"folder", folder.string()}, {"broken", broken}, {"entries", to_json(entries)}}));
    return broken == 0 ? 0 : 1;
  }
  for (const jit::Listed& e : entries) {
    if (!e.problem.empty()) print(fmt::format("{}: {}\n", e.folder.string(), e.problem));
  }
  print(fmt::format("{} of {} broken, in {}\n", broken, count_text(entries.size()), folder.string()));
  if (broken != 0) print("`unisono cache prune` removes them; a program that needs one compiles it again by itself\n");
  return broken == 0 ? 0 : 1;
}

int prune(const CacheOptions& options, const std::filesystem::path& folder) {
  const jit::Pruned pruned = jit::prune_entries(
      folder, {.all = options.all, .older_than = options.older_than, .max_bytes = options.max_bytes});
  for (const std::string& problem : pruned.problems) warn("unisono: cannot remove " + problem);
  if (options.json) {
    print(dump({{"folder", folder.string()},
                {"removed", to_json(pruned.removed)},
                {"leftovers", pruned.leftovers},
                {"freed_bytes", pruned.bytes},
                {"kept", pruned.kept},
                {"kept_bytes", pruned.kept_bytes},
                {"problems", pruned.problems}}));
  } else {
    print(fmt::format("removed {} and {} leftovers, {}; kept {}, {}, in {}\n", count_text(pruned.removed.size()),
                      pruned.leftovers, size_text(pruned.bytes), count_text(pruned.kept), size_text(pruned.kept_bytes),
                      folder.string()));
  }
  return pruned.problems.empty() ? 0 : 2;
}

}  // namespace

int cache(const CacheOptions& options) {
  const std::filesystem::path folder = folder_of(options);
  if (options.action != CacheOptions::Action::path) jit::require_own(folder);
  switch (options.action) {
    case CacheOptions::Action::list: return list(options, folder);
    case CacheOptions::Action::verify: return verify(options, folder);
    case CacheOptions::Action::prune: return prune(options, folder);
    case CacheOptions::Action::path: break;
  }
  print(options.json ? dump({{"folder", folder.string()}}) : folder.string() + "\n");
  return 0;
}

}  // namespace unisono::command
