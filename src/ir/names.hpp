#pragma once
/// Rules for the names of values, operands, stores and functions.

#include <cstddef>
#include <string_view>

namespace unisono::ir {

inline constexpr std::size_t longest_name = 128;

/// True for letters, digits and underscores, not starting with a digit, at most `longest_name`.
bool is_identifier(std::string_view name);

/// True for the words of the text form ("acc", "store", "operand", "index", …) and built-in operations, which name no
/// value.
bool is_reserved(std::string_view name);

/// Throws UserError unless `name` is an identifier and not reserved; `what` says what it was to name.
void check_identifier(std::string_view name, std::string_view what);

}  // namespace unisono::ir
