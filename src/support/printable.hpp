#pragma once
/// Text that came out of a file, for messages: a terminal obeys escape sequences, so none may get there.

#include <cstddef>
#include <string>
#include <string_view>

namespace unisono::support {

/// The text with control characters, malformed UTF-8, and characters that turn the direction of text written as \x1b or
/// \u202e; line feeds and tabs stay.
std::string printable(std::string_view text);

/// The same of JSON, whose strings it leaves valid: \u0085 for what printable() writes as \x85.
std::string printable_json(std::string_view json);

/// The same of a name: line feeds and tabs are escaped too, and what is beyond `most` bytes becomes "…".
std::string printable_name(std::string_view name, std::size_t most = 80);

}  // namespace unisono::support
