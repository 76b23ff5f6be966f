#pragma once
/// --evt: graphs by CUTLASS's visitors, each on several shapes, checked at every element and run twice.

#include <functional>
#include <vector>

#include "gpu/case.hpp"
#include "jit/jit.hpp"

namespace unisono::gpu {

/// The documents' examples and random graphs, 120 in all; each with so many shapes, in every layout, single and
/// batched. One kernel serves the shapes of a graph that have a layout in common.
std::vector<Case> evt_cases(std::uint64_t seed);
inline constexpr int evt_graphs = 120;

/// Compiles all, runs all; exit code 1 if any is wrong, or if fewer graphs than evt_graphs are served.
int run_evt(const std::function<void(const std::vector<jit::Request>&)>& compile);

}  // namespace unisono::gpu
