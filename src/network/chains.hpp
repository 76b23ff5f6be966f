#pragma once
/// Chains: operators on elements, operators that move them and reductions along lines that one launch computes
/// (tensors/chain.hpp).

#include <cstddef>
#include <map>
#include <span>
#include <vector>

#include "network/regions.hpp"
#include "tensors/chain.hpp"

namespace unisono::network {

/// Products with small constant matrices over many rows become sums of products, element by element.
Network with_small_products(const Network& network);

/// A chain as a kernel's program, and the tensors that it reads, in the program's order.
struct Chain {
  tensors::ChainProgram program;
  std::vector<TensorId> inputs;
};

/// The operators, which stand in the order of the network, with all extents known, and those of their results that are
/// stored. Refuses operators that are no part of chains.
plan::Expected<Chain> chain_of(const Network& network, const std::vector<std::size_t>& operators,
                               const std::vector<TensorId>& results);

/// The inputs whose elements a chain moves or computes with: no table of places.
std::span<const TensorId> values_of(const Operator& op);

/// A network and chains in it, each as its operators in the order of the network. What is read outside of a chain
/// beside the last operator's result has as many elements, and is read by later operators.
struct Chained {
  Network network;
  std::vector<std::vector<std::size_t>> chains;
};

/// What a chain's operator is: one more of a move that others have, read within the chain alone, or stored.
enum class ChainRole : std::uint8_t { copied, inner, stored };
using ChainMembers = std::map<std::size_t, ChainRole>;

/// Writes the copies.
Chained with_copies(const Network& network, const std::vector<ChainMembers>& chains);

/// Chains worth a launch of their own in place of several. Moves that others read, too, become operators of their own
/// in the chain. Types in memory and places are known.
Chained find_chains(const FusedNetwork& fused);

}  // namespace unisono::network
