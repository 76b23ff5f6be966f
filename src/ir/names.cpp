#include "ir/names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ir/op_table.hpp"
#include "unisono/error.hpp"

namespace unisono::ir {

namespace {
constexpr bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr std::array<std::string_view, 13> keywords{"acc",   "acc0",         "acc1",        "store", "operand",
                                                    "index", "extent",       "as",          "inf",   "nan",
                                                    "all",   "max_pool_2x2", "upsample_2x2"};
}  // namespace

bool is_identifier(std::string_view name) {
  if (name.empty() || name.size() > longest_name || !is_letter(name[0])) return false;
  return std::all_of(name.begin(), name.end(), [](char c) { return is_letter(c) || is_digit(c); });
}

bool is_reserved(std::string_view name) {
  return std::find(keywords.begin(), keywords.end(), name) != keywords.end() || op_from_name(name).has_value();
}

void check_identifier(std::string_view name, std::string_view what) {
  if (!is_identifier(name))
    throw UserError(fmt::format(
        "{} name '{}' is not an identifier; expected at most {} letters, digits and _, not starting with a digit", what,
        name.substr(0, longest_name), longest_name));
  if (is_reserved(name))
    throw UserError(fmt::format("{} name '{}' is a reserved word of the text form; choose another", what, name));
}

}  // namespace unisono::ir
