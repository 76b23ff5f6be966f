#include "jit/places.hpp"

#include <fmt/format.h>

#include <system_error>

#include "jit/kernel_folder.hpp"
#include "support/environment.hpp"
#include "support/trust.hpp"
#include "unisono/error.hpp"

namespace unisono::jit {
namespace {

namespace fs = std::filesystem;

std::string distrust_text(const fs::path& folder) {
  const std::string why = support::why_distrusted(folder);
  return why.empty() ? "" : "kernels are code, and those in it may be somebody else's: " + why;
}

KernelFolder cache_of(const Settings& settings) {
  if (!settings.use_cache) return {};
  const bool named = !settings.cache.empty();
  const auto folder = named ? settings.cache : support::kernel_cache_folder();
  if (!folder) return {};
  KernelFolder place{fs::absolute(*folder)};
  place.refused = distrust_text(place.folder);
  if (place.refused.empty()) place.refused = why_foreign(place.folder);
  if (named && !place.refused.empty()) throw UserError(place.refused);
  return place;
}

bool is_there(const fs::path& folder) {
  std::error_code failed;
  return fs::exists(folder, failed);
}

}  // namespace

void require_own(const fs::path& folder) {
  if (const std::string why = distrust_text(folder); !why.empty()) throw UserError(why);
}

KernelFolders kernel_folders_of(const Settings& settings) {
  KernelFolders places{.cache = cache_of(settings), .packs = {}};
  for (const fs::path& folder : settings.packs) {
    if (!is_there(folder)) continue;
    require_own(folder);
    places.packs.push_back({folder});
  }
  if (!settings.installed_packs) return places;
  for (const fs::path& folder : support::kernel_pack_folders())
    if (is_there(folder)) places.packs.push_back({folder, distrust_text(folder)});
  return places;
}

}  // namespace unisono::jit
