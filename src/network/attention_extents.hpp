#pragma once
/// How many matrices an Attention multiplies, and how large they are.

#include <cstdint>
#include <vector>

#include "network/sizes.hpp"
#include "unisono/network.hpp"

namespace unisono::network {

/// The extents of the batch, queries, keys, width, width of values; `shapes`: those of the inputs.
Shape attention_extents(const operators::Attention& attention, const std::vector<Shape>& shapes);

/// The shape of what it makes.
Shape result_shape(const operators::Attention& attention, const std::vector<Shape>& shapes);

}  // namespace unisono::network
