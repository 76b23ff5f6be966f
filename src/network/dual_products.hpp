#pragma once
/// Gated units: GEGLU and SwiGLU, two products of one matrix with weights, constants or inputs (n,k), whose results
/// meet in a multiplication, and gated convolutions, two of one image likewise. They become one region, whose kernel
/// reads matrix or image once and has both accumulators of an element.

#include <utility>
#include <vector>

#include "unisono/network.hpp"

namespace unisono::network {

/// Products, or convolutions of one group, whose columns are two parts of a stacked or interleaved one, which slices
/// take apart for a gated unit: each becomes two, with its own columns of the weights and of everything ahead of the
/// slices. Only of weights that dual_products() takes.
Network with_parts_of_products(Network network, std::int64_t multiple);

/// Pairs of products, or of convolutions alike (indices of operators, the first first), that a gated unit joins and
/// nothing else reads. Both multiply one matrix or image by weights of one shape. The weights' rows and
/// columns, or a filter's input and output channels, are multiples of `multiple`.
std::vector<std::pair<std::size_t, std::size_t>> dual_products(const Network& network, std::int64_t multiple);

}  // namespace unisono::network
