#include "command/help.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <string_view>
#include <vector>

namespace unisono::command {
namespace {

/// The limits of CLI11's "INT:0 to 256", or its choices, "{cpu,cuda}"; empty if there are none.
std::string limits_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const auto colon = type.find(':');
  return colon == std::string::npos ? "" : type.substr(colon + 1);
}

std::string value_of(const CLI::Option& option) {
  std::string limits = limits_of(option);
  if (limits.starts_with('{')) {
    std::replace(limits.begin(), limits.end(), ',', '|');
    return limits.substr(1, limits.size() - 2);
  }
  const std::string type = option.get_type_name().substr(0, option.get_type_name().find(':'));
  return type == "INT" || type == "UINT" || type == "FLOAT" ? "N" : type;
}

std::string names_of(const std::set<CLI::Option*>& options) {
  std::vector<std::string> names;
  for (const CLI::Option* option : options) names.push_back(option->get_name());
  std::ranges::sort(names);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string wrapped(const std::string& text, std::size_t columns) {
  std::istringstream words(text);
  std::string line, lines;
  for (std::string word; words >> word; line += (line.empty() ? "" : " ") + word) {
    if (line.empty() || line.size() + 1 + word.size() <= columns) continue;
    lines += line + '\n';
    line.clear();
  }
  return lines + line;
}

}  // namespace

std::string HelpFormatter::make_option_opts(const CLI::Option* option) const {
  if (option->get_type_size() == 0) return "";
  const bool many = option->get_expected_max() == CLI::detail::expected_max_vector_size;
  return fmt::format(" {}{}", value_of(*option), many ? " ..." : "");
}

std::string HelpFormatter::make_option_desc(const CLI::Option* option) const {
  std::vector<std::string> more;
  const std::string limits = limits_of(*option), preset = option->get_default_str();
  if (option->get_required() && !option->get_positional()) more.emplace_back("required");
  if (!limits.empty() && !limits.starts_with('{')) more.push_back(limits);
  if (!preset.empty()) more.push_back("default " + preset);
  if (!option->get_needs().empty()) more.push_back("with " + names_of(option->get_needs()));
  if (!option->get_excludes().empty()) more.push_back("without " + names_of(option->get_excludes()));
  const std::string all = more.empty() ? "" : fmt::format(" ({})", fmt::join(more, "; "));
  constexpr std::size_t columns = 100;
  return wrapped(option->get_description() + all, columns - get_column_width());
}

}  // namespace unisono::command
