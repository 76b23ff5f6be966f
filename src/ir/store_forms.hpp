#pragma once
/// Forms of stores beside the whole value.

#include <cstdint>
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

/// How the images of a convolution lie in memory. Throws UserError for a product.
Layout image_layout(const Contraction& contraction);

/// Shape in memory of a store of an [m,n] value. Throws UserError unless the contraction has images, for what is pooled
/// or upsampled.
std::vector<std::int64_t> shape_of(StoreForm form, const Contraction& contraction);

/// Throws UserError if the graph has a form that is none of this contraction's results.
void check_forms(const Graph& graph, const Contraction& contraction);

}  // namespace unisono::ir
