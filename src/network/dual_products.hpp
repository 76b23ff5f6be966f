#pragma once
/// Gated units, GEGLU and SwiGLU: two products of one matrix with constant weights whose results meet in a
/// multiplication. They become one region, whose kernel reads the matrix once and has both accumulators of an element.

#include <utility>
#include <vector>

#include "unisono/network.hpp"

namespace unisono::network {

/// Products whose columns are two parts of a stacked or interleaved one, which slices take apart for a gated unit:
/// each becomes two products, with its own columns of the weights and of everything ahead of the slices.
Network with_parts_of_products(Network network);

/// Pairs of products (indices of operators, the first first) that a gated unit joins and nothing else reads: of one
/// matrix, with constant weights of one shape, whose rows and columns are multiples of `multiple`.
std::vector<std::pair<std::size_t, std::size_t>> dual_products(const Network& network, std::int64_t multiple);

}  // namespace unisono::network
