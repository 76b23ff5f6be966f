#pragma once
/// Extents of a tensor, once they are numbers.

#include <cstdint>
#include <vector>

namespace unisono::network {

using Sizes = std::vector<std::int64_t>;

}  // namespace unisono::network
