#include "jit/layers.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <chrono>
#include <system_error>

namespace unisono::jit {
namespace {

/// The time of change of entry.json is that of the last use, to the hour; a read-only folder keeps none.
void touch(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / info_file;
  struct stat info {};
  const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  if (::stat(file.c_str(), &info) == 0 && now - info.st_mtime > 3600) ::utimensat(AT_FDCWD, file.c_str(), nullptr, 0);
}

}  // namespace

Layers::Layers(std::vector<std::filesystem::path> packs, std::filesystem::path cache,
               std::function<void(const std::string&)> report)
    : packs_(std::move(packs)), cache_(std::move(cache)), report_(std::move(report)) {}

Layers::Found Layers::find(const std::string& key) {
  if (cache_.empty()) return {};
  auto loaded = load_entry(cache_ / key);
  if (auto* broken = std::get_if<Broken>(&loaded)) return {std::nullopt, std::move(*broken)};
  auto* entry = std::get_if<Loaded>(&loaded);
  if (entry == nullptr) return {};
  touch(entry->folder);
  return {std::move(*entry), std::nullopt};
}

std::optional<Loaded> Layers::find_packed(const std::string& program) {
  if (packs_.empty()) return std::nullopt;
  const auto folder = look_up(packed_, packs_, program);
  if (!folder) return std::nullopt;
  auto loaded = load_entry(*folder);
  if (auto* entry = std::get_if<Loaded>(&loaded)) return std::move(*entry);
  if (const auto* broken = std::get_if<Broken>(&loaded)) report_of(*folder, broken->why);
  return std::nullopt;
}

void Layers::report_of(const std::filesystem::path& entry, const std::string& why) const {
  report_(fmt::format("the pack's entry {} cannot be used: {}", entry.string(), why));
}

Layers::Packed Layers::packed() {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> folders;
  for (const auto& folder : packs_) folders.push_back(folder.string());
  return {packed_.programs.size(), packed_.headers, fmt::format("{}", fmt::join(folders, ", "))};
}

std::optional<Loaded> Layers::find_program(const std::string& program) {
  if (cache_.empty()) return std::nullopt;
  const auto folder = look_up(cached_, {cache_}, program);
  if (!folder) return std::nullopt;
  auto loaded = load_entry(*folder);
  auto* entry = std::get_if<Loaded>(&loaded);
  return entry == nullptr ? std::nullopt : std::optional<Loaded>(std::move(*entry));
}

std::optional<std::filesystem::path> Layers::look_up(Index& index, const std::vector<std::filesystem::path>& folders,
                                                     const std::string& program) {
  const std::lock_guard lock(mutex_);
  for (const auto& folder : index.read ? std::vector<std::filesystem::path>{} : folders) {
    std::error_code error;
    for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
      if (!is_key(it->path().filename().string())) continue;
      const auto info = load_info(it->path());
      const auto* entry = std::get_if<EntryInfo>(&info);
      if (const auto* broken = std::get_if<Broken>(&info); broken != nullptr && &index == &packed_)
        report_of(it->path(), broken->why);
      if (entry == nullptr || !entry->environment.empty()) continue;
      index.programs.emplace(entry->program, it->path());
      index.headers.insert(entry->headers);
    }
  }
  index.read = true;
  const auto found = index.programs.find(program);
  return found == index.programs.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace unisono::jit
