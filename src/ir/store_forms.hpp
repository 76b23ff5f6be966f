#pragma once
/// Forms of stores beside the whole value: what they are, and the graph without them.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/contraction.hpp"
#include "unisono/graph.hpp"

namespace unisono::ir {

/// Whether a form of a store is called so in the text form ("max_pool_2x2").
bool is_store_form(std::string_view name);

/// Part of verify(): throws UserError, or InternalError for what no caller can cause, if the forms of the graph's
/// stores break a rule. Values and names of the stores are legal.
void verify_store_forms(const Graph& graph);

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

/// How the images of a convolution lie in memory. Throws UserError for a product.
Layout image_layout(const Contraction& contraction);

/// Shape in memory of a store of an [m,n] value. Throws UserError unless the contraction has images, for what is pooled
/// or upsampled.
std::vector<std::int64_t> shape_of(StoreForm form, const Contraction& contraction);

/// Throws UserError if the graph has a form that is none of this contraction's results.
void check_forms(const Graph& graph, const Contraction& contraction);

}  // namespace unisono::ir
