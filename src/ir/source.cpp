#include "ir/source.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "support/utf8.hpp"
#include "unisono/error.hpp"

namespace unisono::ir {

namespace {

constexpr std::size_t shown = 120;        // characters of a line, at most
constexpr std::size_t shown_before = 80;  // columns ahead of the place

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xc0u) == 0x80u; }

// Bytes of the UTF-8 character at the start of `s`; 0 if it is malformed
std::size_t character_length(std::string_view s) {
  const auto c = support::first_character(s);
  return c.code ? c.bytes : 0;
}

// Appends the character at the start of `s` as it may be shown, and returns its bytes: a tab becomes a blank, so that
// carets stay below their characters; control characters and malformed bytes become '?'
std::size_t append_shown(std::string& out, std::string_view s) {
  const std::size_t n = character_length(s);
  const auto lead = static_cast<unsigned char>(s[0]);
  if (n == 0 || lead < 0x20 || lead == 0x7f || (lead == 0xc2 && static_cast<unsigned char>(s[1]) < 0xa0))
    out += s[0] == '\t' ? ' ' : '?';
  else
    out += s.substr(0, n);
  return std::max<std::size_t>(n, 1);
}

std::size_t step_back(std::string_view text, std::size_t lowest, std::size_t offset, std::size_t characters) {
  while (offset > lowest && characters-- > 0) {
    --offset;
    for (int i = 0; i < 3 && offset > lowest && continues_character(text[offset]); ++i) --offset;
  }
  return offset;
}

}  // namespace

std::string excerpt(std::string_view text) {
  constexpr std::size_t longest = 128;
  return text.size() <= longest ? std::string(text) : fmt::format("{}...", text.substr(0, longest));
}

Source::Position Source::place(std::size_t offset) const {
  const auto before = text_.substr(0, offset);
  const auto newline = before.rfind('\n');
  auto line = newline == std::string_view::npos ? before : before.substr(newline + 1);
  Position p;
  p.line = 1 + static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n'));
  while (!line.empty()) {
    line.remove_prefix(std::max<std::size_t>(character_length(line), 1));
    ++p.column;
  }
  return p;
}

void Source::fail(Span span, std::string_view message) const {
  const std::size_t offset = std::min(span.offset, text_.size());
  const auto newline = offset == 0 ? std::string_view::npos : text_.rfind('\n', offset - 1);
  const std::size_t line_start = newline == std::string_view::npos ? 0 : newline + 1;
  std::size_t line_end = std::min(text_.find('\n', offset), text_.size());
  if (line_end > line_start && text_[line_end - 1] == '\r') --line_end;

  std::string line, carets;
  std::size_t at = step_back(text_, line_start, std::min(offset, line_end), shown_before);
  if (at > line_start) {
    line = "...";
    carets = "   ";
  }
  for (std::size_t count = 0; at < line_end && count < shown; ++count) {
    const bool marked = at >= offset && at < std::max(offset + 1, offset + span.length);
    carets += marked ? '^' : ' ';
    at += append_shown(line, text_.substr(at, line_end - at));
  }
  if (at < line_end) line += "...";
  if (offset >= line_end) carets += '^';
  carets.erase(std::min(carets.size(), carets.find_last_not_of(' ') + 1));

  const Position p = place(offset);
  const auto number = std::to_string(p.line);
  throw UserError(fmt::format("line {}, column {}: {}\n  {} | {}\n  {} | {}", p.line, p.column, message, number, line,
                              std::string(number.size(), ' '), carets));
}

}  // namespace unisono::ir
