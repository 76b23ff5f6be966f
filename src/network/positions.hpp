#pragma once
/// Values that say where something lies. A pixel at 200.5 is one at 200 in bf16, and what is sampled there another:
/// such values are f32 in memory wherever they are made, beside contractions.

#include <optional>
#include <vector>

#include "network/regions.hpp"
#include "unisono/network.hpp"

namespace unisono::network {

/// By tensor: it is of f32, what GridSample reads as its grid or a cast makes an integer of more than 8 bits of follows
/// from it by arithmetic, moves, sums and products of at most 16 terms, and what makes it can write f32. What
/// a contraction or a normalisation makes is none: it has 16 bits, and only what is computed of that has more.
std::vector<bool> positions(const Network& network);

/// Products of at most 16 terms that make positions, such as those of an affine map, are no contractions but MatMuls,
/// whose kernels compute in f32.
Network with_exact_products(Network network);

/// Positions, and f32 of islands, that a region reads whose kernels know the element alone, of which it then reads a
/// copy; nothing if there are none.
std::optional<Network> with_rounded_copies(const FusedNetwork& fused);
/// The name of the copy.
std::string rounded_copy_of(const std::string& name);

}  // namespace unisono::network
