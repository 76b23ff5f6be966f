#pragma once
/// --evt: graphs by CUTLASS's visitors, each on several shapes, checked at every element and run twice.

#include <cstddef>
#include <functional>
#include <vector>

#include "gpu/case.hpp"
#include "jit/jit.hpp"

namespace unisono::gpu {

/// The documents' examples and random graphs, 120 for each architecture that runs here (sm90a, sm80), 30 of them behind
/// convolutions; each with three shapes, in every layout, single and batched. One kernel serves the shapes of a graph.
/// With --arch those of one; of sm100a and sm120 40 random graphs, to be compiled.
std::vector<Case> evt_cases(std::uint64_t seed);
inline constexpr std::size_t evt_graphs = 120, evt_compiled_graphs = 40;
/// Beside those, on sm90a: gradients of filters, and grouped products.
inline constexpr std::size_t gradient_graphs = 15, grouped_graphs = 10;

/// Prints how many graphs there are of each architecture, and binds a launch of each problem to arguments that are not
/// in memory. Exit code 1 if graphs are too few, or a launch cannot be bound or does not carry the problem's numbers.
int list_evt();

/// Compiles all, runs all; exit code 1 if any is wrong, or if fewer graphs than evt_graphs an architecture are served,
/// or fewer than 20 convolutions.
int run_evt(const std::function<void(const std::vector<jit::Request>&)>& compile);

}  // namespace unisono::gpu
