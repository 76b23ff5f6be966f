#include "figure/svg.hpp"

#include <fmt/format.h>

#include "figure/font.hpp"

namespace unisono::figure {

std::string xml_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&apos;"; break;
      default: out += static_cast<unsigned char>(c) < ' ' ? ' ' : c;  // XML 1.0 has no control characters
    }
  }
  return out;
}

std::string to_hex(Color c) { return fmt::format("#{:02x}{:02x}{:02x}", c.r, c.g, c.b); }

void Svg::rect(const Rect& r, Color fill, Color border, double corner_radius, bool dashed) {
  body_ += fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"{:g}\" fill=\"{}\" stroke=\"{}\"{}/>\n",
      r.x, r.y, r.width, r.height, corner_radius, to_hex(fill), to_hex(border),
      dashed ? " stroke-dasharray=\"4 3\"" : "");
}

void Svg::text(Point p, std::string_view text, double size, Color color, bool bold, std::string_view anchor) {
  body_ += fmt::format(
      "<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{:g}\" fill=\"{}\" text-anchor=\"{}\"{} "
      "xml:space=\"preserve\">{}</text>\n",
      p.x, p.y, size, to_hex(color), anchor, bold ? " font-weight=\"bold\"" : "", xml_escaped(text));
}

void Svg::arrow(const std::vector<Point>& points, Color color) {
  if (points.size() < 2) return;
  std::string path = fmt::format("M{:.1f} {:.1f}", points[0].x, points[0].y);
  for (std::size_t i = 1; i < points.size(); ++i) {
    const Point a = points[i - 1], b = points[i];
    const double reach = (b.y - a.y) / 2;
    path += fmt::format("C{:.1f} {:.1f} {:.1f} {:.1f} {:.1f} {:.1f}", a.x, a.y + reach, b.x, b.y - reach, b.x, b.y);
  }
  body_ += fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.3\" marker-end=\"url(#head)\"/>\n",
                       path, to_hex(color));
}

std::string Svg::finish(double width, double height, std::string_view title) const {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "font-family=\"DejaVu Sans Mono, Menlo, Consolas, monospace\">\n"
      "<title>{2}</title>\n"
      "<defs><marker id=\"head\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" "
      "orient=\"auto\">"
      "<path d=\"M0 0.5L8 4L0 7.5z\" fill=\"#6b7280\"/></marker></defs>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n{3}</svg>\n",
      width, height, xml_escaped(title), body_);
}

double svg_text_width(std::string_view text, double size) {
  double characters = 0;
  while (!text.empty()) {
    next_character(text);
    ++characters;
  }
  return characters * 0.602 * size;
}

}  // namespace unisono::figure
