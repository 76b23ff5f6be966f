#include "jit/cache.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "support/environment.hpp"
#include "support/files.hpp"
#include "support/hash.hpp"

namespace unisono::jit {
namespace {

namespace fs = std::filesystem;

std::string_view text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Writes the files of an entry; the description last.
void write_entry(const fs::path& folder, const Product& product) {
  EntryInfo info = product.info;
  const auto add = [&](const char* name, std::string_view bytes) {
    support::write_synced_file(folder / name, bytes);
    info.files[name] = {bytes.size(), support::hash(bytes)};
  };
  add(source_name, product.request.source);
  add(cubin_file, text_of(product.compiled.cubin));
  add(log_file, product.compiled.log);
  support::write_synced_file(folder / info_file, to_text(info));
  support::sync_folder(folder);
}

}  // namespace

fs::path Cache::publish(const Product& product) const {
  claim(folder_);
  fs::path target = folder_ / product.info.key;
  support::TemporaryFolder making(folder_ / making_folder);
  write_entry(making.path(), product);
  // a folder may stand there although this host's lock is held: from another host, or from before
  for (int attempt = 0; !making.rename_to(target); ++attempt) {
    if (std::holds_alternative<Loaded>(load_entry(target))) return target;
    if (attempt == 3) throw std::system_error(EEXIST, std::generic_category(), target.string());
    move_aside(product.info.key);
  }
  support::sync_folder(folder_);
  return target;
}

void Cache::move_aside(const std::string& key) const {
  claim(folder_);
  const fs::path aside = folder_ / broken_folder;
  support::make_folders(aside);
  const fs::path target = aside / (key + "-" + support::unique_name());
  if (::rename((folder_ / key).c_str(), target.c_str()) != 0 && errno != ENOENT) {
    throw std::system_error(errno, std::generic_category(), (folder_ / key).string());
  }
  keep_newest(aside, kept_at_most);
}

void Cache::sweep() const {
  if (is_marked(folder_)) support::sweep(folder_ / making_folder);
}

Kept keep_failed(const fs::path& folder, const std::string& key, const Request& request, const Compiled& compiled) {
  std::vector<fs::path> places;
  if (!folder.empty()) places.push_back(folder / failed_folder);
  if (const auto work = support::work_folder()) places.push_back(work->parent_path() / failed_folder);
  std::string problem = "no folder to write to";
  for (const fs::path& place : places) {
    try {
      if (place.parent_path() == folder) claim(folder);
      support::TemporaryFolder making(place);
      support::write_file(making.path() / source_name, request.source);
      support::write_file(making.path() / log_file, compiled.log);
      const fs::path target = place / key;
      if (!making.rename_to(target)) {  // the same source has failed before
        std::error_code ignored;
        fs::remove_all(target, ignored);
        if (!making.rename_to(target)) return {target / source_name, ""};
      }
      keep_newest(place, kept_at_most);
      return {target / source_name, ""};
    } catch (const std::exception& error) {  // the disk, or a folder that is not ours
      problem = error.what();
    }
  }
  return {{}, problem};
}

void keep_newest(const fs::path& folder, std::size_t count) {
  std::vector<std::pair<std::int64_t, fs::path>> items;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    struct stat info {};
    if (!is_leftover(folder.filename().string(), it->path().filename().string())) continue;
    if (::lstat(it->path().c_str(), &info) != 0) continue;
    items.emplace_back(std::int64_t{info.st_ctim.tv_sec} * 1000000000 + info.st_ctim.tv_nsec, it->path());
  }
  if (items.size() <= count) return;
  std::sort(items.begin(), items.end());
  for (std::size_t i = 0; i + count < items.size(); ++i) {
    std::error_code ignored;
    fs::remove_all(items[i].second, ignored);
  }
}

}  // namespace unisono::jit
