#include "figure/boxes.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "figure/svg.hpp"
#include "unisono/error.hpp"

namespace unisono::figure {
namespace {

constexpr double margin = 24, title_size = 17, line_size = 12, line_height = 16, padding = 8;
constexpr std::size_t max_boxes = 1000;
constexpr Color ink{28, 32, 42}, muted{85, 93, 108}, arrow_color{107, 114, 128};

LayeredGraph::Size size_of(const Box& box) {
  double width = 30;
  for (const std::string& line : box.lines) width = std::max(width, svg_text_width(line, line_size));
  return {width + 2 * padding, static_cast<double>(box.lines.size()) * line_height + 2 * padding - 4};
}

void draw(Svg& svg, const Box& box, Rect rect) {
  svg.rect(rect, box.fill, box.border, box.corner_radius, box.dashed);
  double y = rect.y + padding + 10;
  for (std::size_t i = 0; i < box.lines.size(); ++i, y += line_height) {
    svg.text({rect.centre().x, y}, box.lines[i], line_size, i == 0 ? ink : muted, i == 0, "middle");
  }
}

/// The entries whose colour a box has.
std::vector<LegendEntry> legend_of(const BoxDiagram& diagram) {
  std::vector<LegendEntry> legend;
  for (const LegendEntry& entry : diagram.legend)
    if (std::ranges::any_of(diagram.boxes, [&](const Box& box) { return box.fill == entry.fill; }))
      legend.push_back(entry);
  return legend;
}

/// Returns the width of the legend.
double draw_legend(Svg& svg, const std::vector<LegendEntry>& legend, double y) {
  double x = margin;
  for (const LegendEntry& entry : legend) {
    svg.rect({x, y, 12, 12}, entry.fill, arrow_color, 3);
    svg.text({x + 18, y + 10}, entry.text, line_size, muted);
    x += 18 + svg_text_width(entry.text, line_size) + 22;
  }
  return x;
}

}  // namespace

std::string to_svg(const BoxDiagram& diagram) {
  if (diagram.boxes.size() > max_boxes) {
    throw UserError(
        fmt::format("'{}' has {} boxes: a diagram of more than {} cannot be read; Graphviz text has no such limit",
                    diagram.title, diagram.boxes.size(), max_boxes));
  }
  LayeredGraph graph;
  for (const Box& box : diagram.boxes) graph.nodes.push_back(size_of(box));
  graph.edges = diagram.edges;
  const LayeredLayout layout = lay_out(graph);

  Svg svg;
  svg.text({margin, margin + 12}, diagram.title, title_size, ink, true);
  const double legend_y = margin + 28;
  const std::vector<LegendEntry> legend = legend_of(diagram);
  const double legend_width = legend.empty() ? 0 : draw_legend(svg, legend, legend_y);
  const double top = legend_y + (legend.empty() ? 0 : 34);
  const double width =
      std::max({layout.width + 2 * margin, legend_width, svg_text_width(diagram.title, title_size) + 2 * margin});
  const double left = (width - layout.width) / 2;
  for (auto points : layout.edges) {
    for (Point& p : points) p = {p.x + left, p.y + top};
    svg.arrow(points, arrow_color);
  }
  for (std::size_t i = 0; i < diagram.boxes.size(); ++i) {
    Rect rect = layout.nodes[i];
    rect.x += left;
    rect.y += top;
    draw(svg, diagram.boxes[i], rect);
  }
  return svg.finish(width, top + layout.height + margin, diagram.title);
}

std::string to_dot(const BoxDiagram& diagram) {
  const auto escaped = [](std::string_view text) {
    std::string out;
    for (const char c : text) out += c == '"' || c == '\\' ? std::string{'\\', c} : std::string{c};
    return out;
  };
  std::string out = fmt::format("digraph \"{0}\" {{\n  label=\"{0}\" labelloc=t fontname=Helvetica fontsize=18\n",
                                escaped(diagram.title));
  out += "  node [fontname=Helvetica fontsize=12 shape=box]\n";
  for (std::size_t i = 0; i < diagram.boxes.size(); ++i) {
    const Box& box = diagram.boxes[i];
    std::string label;
    for (const std::string& text : box.lines) label += (label.empty() ? "" : "\\n") + escaped(text);
    out += fmt::format("  b{} [label=\"{}\" fillcolor=\"{}\" color=\"{}\" style=\"filled,rounded{}\"]\n", i, label,
                       to_hex(box.fill), to_hex(box.border), box.dashed ? ",dashed" : "");
  }
  for (const auto& edge : diagram.edges) out += fmt::format("  b{} -> b{}\n", edge.from, edge.to);
  return out + "}\n";
}

}  // namespace unisono::figure
