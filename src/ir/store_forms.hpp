#pragma once
/// Forms of stores beside the whole value: what they are, and the graph without them.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/contraction.hpp"
#include "unisono/graph.hpp"

namespace unisono::ir {

/// Whether a form of a store is called so in the text form ("head").
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
  std::shared_ptr<const Head> head = {};    ///< null: none
  std::string head_source = {};             ///< the store of `graph` that the head multiplies
  bool only_head = false;                   ///< that store was scratch
  bool any() const { return !source.empty() || head; }
};

/// Splits a graph that verify() accepts. A source of an upsampled store that the graph lacks gets a name of its own and
/// stands last.
SplitStores split_stores(const Graph& graph);

/// The store, whole or scratch, that a head of the graph multiplies.
const Store& head_source(const Graph& graph, const Store& head);

/// The same graph without its head; what was scratch for it is stored whole.
Graph without_head(const Graph& graph);

/// How the images of a convolution lie in memory. Throws UserError for a product.
Layout image_layout(const Contraction& contraction);

/// What a head with so many channels computes of a tensor of this type that `main` makes. Throws Unsupported for
/// products of a batch.
Contraction head_contraction(const Contraction& main, std::int64_t channels, DType type);

/// Shape in memory of a store of an [m,n] value: of any form but a head, or of any form. Throws UserError unless the
/// contraction has images, for what is pooled or upsampled.
std::vector<std::int64_t> shape_of(StoreForm form, const Contraction& contraction);
std::vector<std::int64_t> shape_of(const Store& store, const Contraction& contraction);

/// Throws UserError if the graph has a form that is none of this contraction's results; Unsupported as
/// head_contraction().
void check_forms(const Graph& graph, const Contraction& contraction);

}  // namespace unisono::ir
