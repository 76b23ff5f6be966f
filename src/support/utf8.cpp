#include "support/utf8.hpp"

namespace unisono::support {

namespace {

// Bytes of the character that begins with this one; 0 if none does
std::size_t length_by_lead(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead < 0xc2 || lead > 0xf4) return 0;
  return lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}

}  // namespace

Utf8Character first_character(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const std::size_t bytes = length_by_lead(lead);
  if (bytes == 0) return {};
  if (bytes == 1) return {lead, 1};
  char32_t code = lead & (0xffu >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) {
    const auto next = i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
    if ((next & 0xc0u) != 0x80u) return {std::nullopt, i};
    code = code << 6 | (next & 0x3fu);
  }
  constexpr char32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  if (code < least[bytes] || surrogate || code > 0x10ffff) return {std::nullopt, bytes};
  return {code, bytes};
}

}  // namespace unisono::support
