#include "codegen/file_local.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "codegen/inlined.hpp"

namespace unisono::codegen {
namespace {

// How deep in braces a place of a text is, and whether it is code: what stands in comments and literals is not
class Braces {
 public:
  bool at_top() const { return depth_ == 0 && !in_comment_ && closing_.empty(); }

  // `line` ends with its newline
  void read(std::string_view line) {
    for (std::size_t at = 0; at < line.size();) {
      const std::string_view rest = line.substr(at);
      if (in_comment_ || !closing_.empty()) {
        const std::string_view end = in_comment_ ? std::string_view("*/") : std::string_view(closing_);
        const std::size_t found = rest.find(end);
        if (found == rest.npos) return;
        at += found + end.size();
        in_comment_ = false;
        closing_.clear();
      } else if (rest.starts_with("//")) {
        return;
      } else {
        at += code(rest, at > 0 ? line[at - 1] : ' ');
      }
    }
  }

 private:
  std::size_t code(std::string_view rest, char before) {
    const char c = rest[0];
    if (rest.starts_with("/*")) return in_comment_ = true, 2;
    const std::size_t bracket = rest.find('(');
    if (rest.starts_with("R\"") && bracket != rest.npos) {
      closing_ = fmt::format("){}\"", rest.substr(2, bracket - 2));
      return bracket + 1;
    }
    if (c == '"' || (c == '\'' && std::isalnum(static_cast<unsigned char>(before)) == 0)) return literal(rest);
    if (c == '{') ++depth_;
    if (c == '}') --depth_;
    return 1;
  }
  static std::size_t literal(std::string_view rest) {
    std::size_t at = 1;
    while (at < rest.size() && rest[at] != rest[0]) at += rest[at] == '\\' ? 2 : 1;
    return std::min(at + 1, rest.size());
  }

  int depth_ = 0;
  bool in_comment_ = false;
  std::string closing_;  // of the raw string that is open
};

bool is_include(std::string_view line) {
  const auto skip = [&] { line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size())); };
  skip();
  if (!line.starts_with('#')) return false;
  line.remove_prefix(1);
  skip();
  return line.starts_with("include");
}

}  // namespace

std::string in_inline_namespace(std::string_view text, std::string_view name) {
  const std::string opening = fmt::format("inline namespace {} {{\n", name);
  const std::string closing = fmt::format("}}  // namespace {}\n", name);
  std::string result;
  bool is_open = false;
  Braces braces;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end);
    const bool interrupts = braces.at_top() && is_include(line), is_blank = line == "\n" && !is_open;
    if (is_open && interrupts) result += closing;
    if (!is_open && !interrupts && !is_blank) result += opening;
    is_open = !interrupts && (is_open || !is_blank);
    result += line;
    if (!line.ends_with('\n')) result += '\n';
    braces.read(line);
  }
  return is_open ? result + closing : result;
}

std::string with_own_functions(std::string source, std::string_view functions, std::string_view name) {
  if (functions.empty()) return source;
  return replaced(std::move(source), functions,
                  in_inline_namespace(functions, fmt::format("unisono_{}_functions", name)));
}

}  // namespace unisono::codegen
