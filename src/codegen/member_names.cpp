#include "codegen/member_names.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "codegen/names.hpp"

namespace unisono::codegen {
namespace {

// Words of C that are none of C++, and macros in small letters
constexpr std::array further_words{"restrict", "errno", "assert", "stdin", "stdout", "stderr", "offsetof"};

}  // namespace

bool is_macro(std::string_view name) {
  const auto letters = std::ranges::count_if(name, [](unsigned char c) { return std::isalpha(c) != 0; });
  const bool small = std::ranges::any_of(name, [](unsigned char c) { return std::islower(c) != 0; });
  return (letters > 1 && !small) || std::ranges::find(further_words, name) != further_words.end();
}

std::string MemberNames::add(std::string_view name, std::string_view suffix) {
  std::string member(name);
  if (is_word(name) || is_macro(name)) member += "_";
  if (taken_.contains(member)) member = std::string(name) + std::string(suffix);
  while (!taken_.insert(member).second) member += "_";
  return member;
}

}  // namespace unisono::codegen
