#pragma once
/// Chains: operators on elements, operators that move them and reductions along lines that one launch computes
/// (tensors/chain.hpp).

#include <cstddef>
#include <span>
#include <vector>

#include "network/regions.hpp"
#include "tensors/chain.hpp"

namespace unisono::network {

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
std::span<const TensorId> moved_inputs(const Operator& op);

/// A network and chains in it, each as its operators in the order of the network. What is read outside of a chain beside
/// the last operator's result has as many elements, and is read by later operators.
struct Chained {
  Network network;
  std::vector<std::vector<std::size_t>> chains;
};

/// Chains worth a launch of their own in place of several. Moves that others read, too, become operators of their own
/// in the chain. Types in memory and places are known.
Chained find_chains(const FusedNetwork& fused);

}  // namespace unisono::network
