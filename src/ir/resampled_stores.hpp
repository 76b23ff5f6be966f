#pragma once
/// Pooled and enlarged stores apart from the stores of whole values.

#include <cstdint>
#include <string>
#include <vector>

#include "unisono/contraction.hpp"
#include "unisono/graph.hpp"

namespace unisono::ir {

/// A graph without pooled and enlarged stores, and what these were.
struct SplitStores {
  Graph graph;
  std::string source = {};                 ///< the store of `graph` of which they are made; empty: there were none
  std::string pooled = {}, enlarged = {};  ///< their names; empty: not made
  bool only_enlarged = false;              ///< the graph as it was written does not have `source`
  bool any() const { return !source.empty(); }
};

/// Splits a graph that verify() accepts. A source that the graph lacks gets a name of its own and stands last.
SplitStores split_stores(const Graph& graph);

/// How the images of a convolution lie in memory. Throws UserError for a product.
Layout image_layout(const Contraction& contraction);

/// Shape in memory of a store of this form, of an [m,n] value. Throws UserError unless the contraction has images.
std::vector<std::int64_t> shape_of(StoreForm form, const Contraction& contraction);

/// Throws UserError if the graph has a form that is none of this contraction's results.
void check_forms(const Graph& graph, const Contraction& contraction);

}  // namespace unisono::ir
