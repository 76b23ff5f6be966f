#pragma once
/// UTF-8.

#include <cstddef>
#include <optional>
#include <string_view>

namespace unisono::support {

struct Utf8Character {
  std::optional<char32_t> code;  ///< nothing if the text is malformed here
  std::size_t bytes = 1;         ///< that it takes; of malformed text, those that cannot begin a character together
};

/// The character that `text`, which is not empty, begins with. Malformed are overlong forms, surrogates, what lies
/// beyond U+10FFFF, and characters that are cut off.
Utf8Character first_character(std::string_view text);

}  // namespace unisono::support
