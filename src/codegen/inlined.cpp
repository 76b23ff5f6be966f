#include "codegen/inlined.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <sstream>

#include "unisono/error.hpp"

namespace unisono::codegen {
namespace {

class Inliner {
 public:
  explicit Inliner(std::span<const Header> further) : further_(further) {}

  std::string text(std::string_view source) {
    std::istringstream lines{std::string(source)};
    std::string line, result;
    while (std::getline(lines, line)) {
      if (line == "#pragma once") continue;
      const std::string name = included(line);
      if (name.empty())
        result += line + "\n";
      else if (seen_.insert(name).second)
        result += fmt::format("// ---- {0}\n{1}// ---- end of {0}\n", name, text(header(name)));
      else
        result += fmt::format("// ---- above: {}\n", name);
    }
    return result;
  }

 private:
  // The header of ours that a line includes, in quotes or brackets
  static std::string included(std::string_view line) {
    for (const std::string_view opening : {"#include \"unisono/", "#include <unisono/"}) {
      if (!line.starts_with(opening)) continue;
      const std::size_t begin = opening.find_first_of("\"<") + 1;
      return std::string(line.substr(begin, line.find_first_of("\">", begin) - begin));
    }
    return {};
  }
  std::string_view header(const std::string& name) const {
    for (const std::span<const Header> all : {device_headers(), further_})
      if (const auto found = std::ranges::find(all, name, &Header::name); found != all.end()) return found->text;
    throw InternalError(fmt::format("a source includes {}, which is not a header of Unisono", name));
  }

  std::span<const Header> further_;
  std::set<std::string> seen_;
};

bool is_letter(char c) { return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0; }

}  // namespace

std::string inlined(std::string_view source, std::span<const Header> further) { return Inliner(further).text(source); }

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

std::string renamed(std::string_view text, std::string_view from, std::string_view to) {
  std::string result;
  std::size_t done = 0;
  for (std::size_t at = text.find(from); at != text.npos; at = text.find(from, at + from.size())) {
    const std::size_t end = at + from.size();
    if ((at > 0 && is_letter(text[at - 1])) || (is_letter(from.back()) && end < text.size() && is_letter(text[end])))
      continue;
    result.append(text.substr(done, at - done)).append(to);
    done = end;
  }
  return result.append(text.substr(done));
}

}  // namespace unisono::codegen
