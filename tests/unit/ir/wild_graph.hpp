#pragma once
/// Random legal graphs that reach every operation, attribute and kind of name. They compute nothing sensible.

#include <cstdint>
#include <vector>

#include "unisono/graph.hpp"

namespace unisono::test {

/// The user functions that wild graphs call: with and without a result, of no, one and three inputs.
const std::vector<UserFunction>& wild_functions();

/// The same graph for the same seed, on every platform.
Graph wild_graph(std::uint64_t seed);

/// `graph` with a store of every value that nothing uses.
Graph without_dead_values(Graph graph);

/// The same graph with its nodes in another topological order and some leaves standing twice.
Graph shuffled(const Graph& graph, std::uint64_t seed);

}  // namespace unisono::test
