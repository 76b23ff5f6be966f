#pragma once
/// Text on a canvas.

#include <memory>
#include <string>
#include <string_view>

#include "figure/canvas.hpp"

namespace unisono::figure {

/// A typeface in one weight. Text is UTF-8; sizes are pixels from one line to the next at tight setting (the "em").
class Font {
 public:
  virtual ~Font() = default;
  /// What the text takes along the line.
  virtual double width(std::string_view text, double size) const = 0;
  /// Draws with the left end of the baseline at `origin`.
  virtual void draw(Canvas& canvas, Point origin, std::string_view text, double size, Color color) const = 0;
  /// Where the outlines come from: a path, or "built in".
  virtual std::string source() const = 0;
};

enum class Weight : std::uint8_t { regular, bold };

/// A sans-serif TrueType font of this machine, or the built-in one if there is none.
std::unique_ptr<Font> system_font(Weight weight);

/// Our own, of strokes: the printable ASCII characters and a few signs. The same pixels on every machine.
std::unique_ptr<Font> stroke_font(Weight weight);

enum class Align : std::uint8_t { left, centre, right };

/// Draws text so that `origin` is the left end, the middle or the right end of its baseline.
void draw_text(Canvas& canvas, const Font& font, Point origin, std::string_view text, double size, Color color,
               Align align = Align::left);

/// The next character of UTF-8 text, which is moved past it; U+FFFD for a malformed one.
char32_t next_character(std::string_view& text);

}  // namespace unisono::figure
