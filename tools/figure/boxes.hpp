#pragma once
/// A diagram of boxes of text, joined by arrows: what all our diagrams are made of.

#include <string>
#include <vector>

#include "figure/color.hpp"
#include "figure/layered.hpp"

namespace unisono::figure {

struct Box {
  std::vector<std::string> lines;  ///< the first is bold; at least one
  Color fill{243, 244, 246};
  Color border{75, 85, 99};
  double corner_radius = 5;
  bool dashed = false;
};

struct LegendEntry {
  std::string text;
  Color fill;
};

struct BoxDiagram {
  std::string title;
  std::vector<Box> boxes = {};
  std::vector<LayeredGraph::Edge> edges = {};  ///< from a smaller to a larger index
  std::vector<LegendEntry> legend = {};
};

/// The diagram as an SVG document. Throws UserError for more than 1000 boxes.
std::string to_svg(const BoxDiagram& diagram);

/// The diagram as Graphviz text.
std::string to_dot(const BoxDiagram& diagram);

}  // namespace unisono::figure
