#include "command/subject.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "media/file.hpp"
#include "unisono/error.hpp"
#include "unisono/text.hpp"

namespace unisono::command {
namespace {

constexpr std::int64_t text_bytes = 1 << 20;  // as parse() takes

std::string text_of(const std::vector<std::uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

/// No name of a file has an equals sign or a blank in it, one hopes; an epilogue always has.
bool looks_like_text(const std::string& subject) { return subject.find_first_of("= \n;") != std::string::npos; }

}  // namespace

std::pair<std::string, std::string> find_text(const std::string& subject) {
  if (subject == "-") return {text_of(media::read_standard_input({.bytes = text_bytes})), "standard input"};
  std::error_code ignored;
  if (std::filesystem::exists(subject, ignored))
    return {text_of(media::read_file(subject, {.bytes = text_bytes})), subject};
  if (looks_like_text(subject)) return {subject, ""};
  throw UserError(
      fmt::format("'{}' is no file, and no epilogue such as 'y = silu(acc + bias[n]); store y : bf16'", subject));
}

Graph parse_text(const std::string& text, const std::string& source) {
  try {
    return parse(text);
  } catch (const UserError& error) {
    if (source.empty()) throw;
    throw UserError(fmt::format("{}: {}", source, error.what()));
  }
}

}  // namespace unisono::command
