#include "jit/full_names.hpp"

#include <algorithm>
#include <filesystem>

namespace unisono::jit {
namespace {

std::string_view without_blanks(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  return first == std::string_view::npos ? std::string_view{} : text.substr(first);
}

/// The name between the quotes of an #include line; empty for every other line.
std::string_view quoted_include(std::string_view line) {
  line = without_blanks(line);
  if (!line.starts_with('#')) return {};
  line = without_blanks(line.substr(1));
  if (!line.starts_with("include")) return {};
  line = without_blanks(line.substr(7));
  if (!line.starts_with('"')) return {};
  const std::size_t end = line.find('"', 1);
  return end == std::string_view::npos ? std::string_view{} : line.substr(1, end - 1);
}

}  // namespace

std::string with_full_names(const Header& header, std::span<const Header> all) {
  const std::filesystem::path folder = std::filesystem::path(header.name).parent_path();
  std::string result;
  for (std::string_view rest = header.text; !rest.empty();) {
    const std::string_view line =
        rest.substr(0, std::min(rest.size(), rest.find('\n') + 1 == 0 ? rest.size() : rest.find('\n') + 1));
    rest.remove_prefix(line.size());
    const std::string_view name = quoted_include(line);
    const std::string full = name.empty() ? "" : (folder / name).lexically_normal().string();
    if (full.empty() || std::none_of(all.begin(), all.end(), [&](const Header& h) { return h.name == full; })) {
      result += line;
      continue;
    }
    const std::size_t at = static_cast<std::size_t>(name.data() - line.data());
    result += line.substr(0, at);
    result += full;
    result += line.substr(at + name.size());
  }
  return result;
}

}  // namespace unisono::jit
