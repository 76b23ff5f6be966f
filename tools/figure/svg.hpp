#pragma once
/// SVG text.

#include <string>
#include <string_view>
#include <vector>

#include "figure/canvas.hpp"

namespace unisono::figure {

/// `text` with &, <, >, quotes and control characters made safe for XML.
std::string xml_escaped(std::string_view text);

/// "#rrggbb".
std::string to_hex(Color color);

/// A drawing with a white background. Text is monospaced, so that its width is known: see svg_text_width.
class Svg {
 public:
  void rect(const Rect& rect, Color fill, Color border, double corner_radius = 0, bool dashed = false);
  void text(Point baseline, std::string_view text, double size, Color color, bool bold = false,
            std::string_view anchor = "start");
  /// A smooth curve that leaves and enters every point vertically, with an arrow head at its end.
  void arrow(const std::vector<Point>& points, Color color);
  /// The document.
  std::string finish(double width, double height, std::string_view title) const;

 private:
  std::string body_;
};

/// Width of `text` (UTF-8) in a monospaced font, whose characters are 0.602 em wide.
double svg_text_width(std::string_view text, double size);

}  // namespace unisono::figure
