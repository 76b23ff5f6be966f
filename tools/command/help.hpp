#pragma once
/// The text of --help.

#include <CLI/CLI.hpp>
#include <string>

namespace unisono::command {

/// Writes an option as its name and what it takes, `--device cpu|cuda`, and behind its description its limits, default
/// and what it needs or excludes; wraps the description.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override;
  std::string make_option_desc(const CLI::Option* option) const override;
};

}  // namespace unisono::command
