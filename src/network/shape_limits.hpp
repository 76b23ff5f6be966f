#pragma once
/// How large the tensors of a network may be. Every input, constant and result is checked once where it comes to be, so
/// that arithmetic on extents needs no checks of its own.

#include <cstdint>
#include <string>

#include "unisono/network.hpp"

namespace unisono::network {

inline constexpr std::int64_t largest_extent = std::int64_t{1} << 31;
inline constexpr std::size_t largest_rank = 8;

/// Throws UserError starting with `where` for more axes, a larger extent, or more than 2^46 elements (an extent of 0
/// counts as 1: strides know none).
void check_size(const Shape& shape, const std::string& where);

}  // namespace unisono::network
