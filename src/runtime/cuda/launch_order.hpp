#pragma once
/// Which of a number of launches wait for which.

#include <cstddef>
#include <vector>

namespace unisono::cuda {

/// By launch: those ahead of it, by index, that it waits for. What these wait for it waits for, too.
using LaunchOrder = std::vector<std::vector<std::size_t>>;

}  // namespace unisono::cuda
