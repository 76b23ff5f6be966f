#include "command/quantities.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <limits>

namespace unisono::command {
namespace {

/// Takes a whole number from the front of a text.
std::optional<std::uint64_t> take_number(std::string_view& text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

}  // namespace

std::optional<double> parse_duration(std::string_view text) {
  const auto number = take_number(text);
  if (!number || text.size() != 1) return std::nullopt;
  constexpr std::string_view units = "smhdw";
  constexpr std::array<double, 5> seconds{1, 60, 3600, 24 * 3600, 7 * 24 * 3600};
  const std::size_t unit = units.find(text[0]);
  if (unit == std::string_view::npos) return std::nullopt;
  return static_cast<double>(*number) * seconds[unit];
}

std::optional<std::uint64_t> parse_size(std::string_view text) {
  const auto number = take_number(text);
  if (!number) return std::nullopt;
  unsigned shift = 0;
  constexpr std::string_view units = "KMGT";
  if (const std::size_t unit = text.empty() ? units.npos : units.find(text[0]); unit != units.npos) {
    shift = 10 * (static_cast<unsigned>(unit) + 1);
    text.remove_prefix(1);
  }
  if (!text.empty() && text != "B" && !(shift > 0 && text == "iB")) return std::nullopt;
  if (*number > std::numeric_limits<std::uint64_t>::max() >> shift) return std::nullopt;
  return *number << shift;
}

std::string size_text(std::uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  constexpr std::array<const char*, 4> units{"KiB", "MiB", "GiB", "TiB"};
  for (; value >= 1024 && unit + 1 < units.size(); ++unit) value /= 1024;
  return fmt::format("{:.1f} {}", value, units[unit]);
}

std::string age_text(double seconds) {
  if (seconds < 60) return fmt::format("{:.0f} s", seconds < 0 ? 0 : seconds);
  if (seconds < 3600) return fmt::format("{} min", static_cast<std::int64_t>(seconds / 60));
  if (seconds < 24 * 3600) return fmt::format("{} h", static_cast<std::int64_t>(seconds / 3600));
  return fmt::format("{} d", static_cast<std::int64_t>(seconds / (24 * 3600)));
}

}  // namespace unisono::command
