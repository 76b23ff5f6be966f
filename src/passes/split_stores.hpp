#pragma once
/// A graph without the stores of other forms, which kernels make of a whole one.

#include <string>

#include "unisono/graph.hpp"

namespace unisono::passes {

/// A graph with whole stores only, and what the others were.
struct SplitStores {
  Graph graph;
  std::string source = {};                  ///< the store of `graph` of which they are made; empty: there were none
  std::string pooled = {}, upsampled = {};  ///< their names; empty: not made
  bool only_upsampled = false;              ///< the graph as it was written does not have `source`
  bool any() const { return !source.empty(); }
};

/// Splits a graph that verify() accepts. A source of an upsampled store that the graph lacks gets a name of its own and
/// stands last.
SplitStores split_stores(const Graph& graph);

}  // namespace unisono::passes
