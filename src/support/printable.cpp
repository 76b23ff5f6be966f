#include "support/printable.hpp"

#include <fmt/format.h>

#include "support/utf8.hpp"

namespace unisono::support {
namespace {

/// C0 and C1 controls and DEL; characters that reorder the text around them, or separate lines.
bool is_active(char32_t c) {
  return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x61c || (c >= 0x200e && c <= 0x200f) ||
         (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

enum class As { text, json };

std::string escaped(std::string_view bytes, bool lines, std::size_t most, As as = As::text) {
  std::string text;
  while (!bytes.empty()) {
    if (text.size() >= most) return text + "…";
    const Utf8Character c = first_character(bytes);
    const std::string_view here = bytes.substr(0, c.bytes);
    if (c.code && (!is_active(*c.code) || (lines && (*c.code == '\n' || *c.code == '\t')))) {
      text += here;
    } else if (c.code && (*c.code > 0xff || as == As::json)) {
      text += fmt::format("\\u{:04x}", static_cast<std::uint32_t>(*c.code));
    } else if (c.code) {
      text += fmt::format("\\x{:02x}", static_cast<std::uint32_t>(*c.code));
    } else {
      for (const char byte : here) text += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
    }
    bytes.remove_prefix(c.bytes);
  }
  return text;
}

}  // namespace

std::string printable(std::string_view text) { return escaped(text, true, std::string::npos); }

std::string printable_json(std::string_view json) { return escaped(json, true, std::string::npos, As::json); }

std::string printable_name(std::string_view name, std::size_t most) { return escaped(name, false, most); }

}  // namespace unisono::support
