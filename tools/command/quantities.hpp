#pragma once
/// Times and sizes as people write and read them.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace unisono::command {

/// Seconds of "45s", "90m", "12h", "30d" or "8w"; the number is whole and not negative. Nothing for other texts.
std::optional<double> parse_duration(std::string_view text);

/// Bytes of "1000", "64K", "500M", "2G" or "1T", in powers of 1024; "KiB", "MB" and so on mean the same. Nothing for
/// other texts, and for what exceeds 64 bits.
std::optional<std::uint64_t> parse_size(std::string_view text);

/// "850 B", "1.4 KiB", "12.0 MiB".
std::string size_text(std::uint64_t bytes);

/// "12 s", "5 min", "3 h", "12 d": the largest unit of which there is at least one.
std::string age_text(double seconds);

}  // namespace unisono::command
