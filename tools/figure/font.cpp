#include "figure/font.hpp"

#include "support/utf8.hpp"

namespace unisono::figure {

char32_t next_character(std::string_view& text) {
  const auto c = support::first_character(text);
  text.remove_prefix(c.bytes);
  return c.code.value_or(0xfffd);
}

void draw_text(Canvas& canvas, const Font& font, Point origin, std::string_view text, double size, Color color,
               Align align) {
  if (align == Align::centre) origin.x -= font.width(text, size) / 2;
  if (align == Align::right) origin.x -= font.width(text, size);
  font.draw(canvas, origin, text, size, color);
}

}  // namespace unisono::figure
