#include "figure/font.hpp"

namespace coda::figure {

char32_t next_character(std::string_view& text) {
  constexpr char32_t malformed = 0xfffd;
  const auto lead = static_cast<unsigned char>(text.front());
  text.remove_prefix(1);
  if (lead < 0x80) return lead;
  const int more = lead >= 0xf0 && lead < 0xf8 ? 3 : lead >= 0xe0 ? 2 : lead >= 0xc0 ? 1 : 0;
  if (more == 0 || lead >= 0xf8) return malformed;
  char32_t c = lead & (0x3fu >> more);
  for (int i = 0; i < more; ++i) {
    if (text.empty() || (static_cast<unsigned char>(text.front()) & 0xc0u) != 0x80u) return malformed;
    c = c << 6 | (static_cast<unsigned char>(text.front()) & 0x3fu);
    text.remove_prefix(1);
  }
  return c;
}

void draw_text(Canvas& canvas, const Font& font, Point origin, std::string_view text, double size, Color color,
               Align align) {
  if (align == Align::centre) origin.x -= font.width(text, size) / 2;
  if (align == Align::right) origin.x -= font.width(text, size);
  font.draw(canvas, origin, text, size, color);
}

}  // namespace coda::figure
