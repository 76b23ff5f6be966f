#pragma once
/// Texts of users in files that meet in one program.

#include <string>
#include <string_view>

namespace unisono::codegen {

/// The text with its definitions in an inline namespace, so that `::name` finds them as ever and the linker does not
/// take them for another file's. #include lines that are in no braces interrupt the namespace. What is declared
/// extern "C" has one name in all files, still.
std::string in_inline_namespace(std::string_view text, std::string_view name);

/// A kernel's source with the user functions that are a part of it (frame.hpp: functions_text()) in the namespace of a
/// kernel that is called `name`.
std::string with_own_functions(std::string source, std::string_view functions, std::string_view name);

}  // namespace unisono::codegen
