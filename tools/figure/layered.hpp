#pragma once
/// Places the nodes of a directed acyclic graph in layers from top to bottom.
///
/// The steps are those of K. Sugiyama, S. Tagawa, M. Toda, "Methods for Visual Understanding of Hierarchical System
/// Structures", 1981: layers by longest path, order within a layer by barycentres, then coordinates, here by least
/// squares with the least distances kept (pool adjacent violators).

#include <cstddef>
#include <vector>

#include "figure/canvas.hpp"

namespace unisono::figure {

struct LayeredGraph {
  struct Size {
    double width = 0, height = 0;
  };
  struct Edge {
    std::size_t from = 0, to = 0;
  };
  std::vector<Size> nodes;
  std::vector<Edge> edges;  ///< from < to
};

struct LayeredLayout {
  std::vector<Rect> nodes;
  /// For each edge its points from the bottom of one node, past the nodes between, to the top of the other.
  std::vector<std::vector<Point>> edges;
  double width = 0, height = 0;
};

struct LayeredSpacing {
  double across = 18;  ///< between neighbours in a layer
  double down = 34;    ///< between layers
};

/// Throws InternalError for an edge that does not lead from a smaller to a larger index.
LayeredLayout lay_out(const LayeredGraph& graph, const LayeredSpacing& spacing = {});

}  // namespace unisono::figure
