#pragma once
/// Numbers of a command line that have limits.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string>
#include <type_traits>

namespace unisono::bench {

/// For CLI::Option::check: a number from `least` to `most`. An error names both and what was given, as CLI::Range's
/// does in words that change with its version.
template <class T>
CLI::Validator between(T least, T most) {
  const auto fault = [least, most](const std::string& text) {
    T value{};
    const bool fits = CLI::detail::lexical_cast(text, value) && value >= least && value <= most;
    return fits ? std::string()
                : fmt::format("expected {}{} to {}; found {}", std::is_integral_v<T> ? "an integer from " : "", least,
                              most, text);
  };
  return {fault, fmt::format("{} to {}", least, most), ""};
}

}  // namespace unisono::bench
